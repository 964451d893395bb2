'use client'

import { useMemo } from 'react'
import { Sparkline } from '../charts/sparkline.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { Section } from '../ui/section.tsx'
import type { HistoryRange } from '../workers/history-range.ts'
import { useFleetHistory } from '../workers/use-fleet-history.ts'
import { prepareGlance } from './glance.prepare.ts'

export const LAST_HOUR: HistoryRange = { last: 3_600, part: null }
const LINK = 'text-accent hover:underline'

/** The fleet over the last hour as sparklines, because the overview loads no chart library. */
export function FleetGlance() {
  const { data } = useFleetHistory(LAST_HOUR)
  const figures = useMemo(() => (data === undefined ? null : prepareGlance(data)), [data])
  if (data === undefined || figures === null) return null
  return (
    <Section
      title="Fleet, last hour"
      className="border-t"
      note={
        <>
          Charts on{' '}
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
      <FigureStrip label="Fleet, last hour">
        {figures.map(({ label, readings, ...figure }) => (
          <Figure key={label} label={label} {...figure}>
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
