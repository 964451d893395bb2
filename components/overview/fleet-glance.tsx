'use client'

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { useLive } from '../live/live-provider.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { Section } from '../ui/section.tsx'
import { prepareGlance } from './glance.prepare.ts'

const HOUR_S = 3_600
const LINK = 'text-accent hover:underline'
/** Refetch interval: one interval of the range. */
const REFRESH_MS = 20_000

/** The fleet over the last hour, in small: sparklines, because the overview loads no chart library. */
export function FleetGlance() {
  const trpc = useTRPC()
  const { state } = useLive()
  const { data } = useQuery(
    trpc.fleet.history.queryOptions(
      { seconds: HOUR_S },
      {
        meta: { topics: ['servers', 'workers'], minGapMs: 2_000 },
        refetchInterval: state.frozenAt === null ? REFRESH_MS : false,
      },
    ),
  )
  const figures = useMemo(() => (data === undefined ? null : prepareGlance(data)), [data])
  if (data === undefined || figures === null) return null
  return (
    <Section
      title="Last hour"
      className="border-t"
      note={
        <>
          charts on{' '}
          <PageLink href="/servers?last=3600" className={LINK}>
            Servers
          </PageLink>{' '}
          and{' '}
          <PageLink href="/workers?last=3600" className={LINK}>
            Workers
          </PageLink>
        </>
      }
    >
      <FigureStrip label="Last hour">
        {figures.map(({ label, value, detail, readings }) => (
          <Figure key={label} label={label} value={value} detail={detail}>
            <Sparkline
              readings={readings}
              slots={data.intervals}
              label={`${label} over the last hour`}
            />
          </Figure>
        ))}
      </FigureStrip>
    </Section>
  )
}
