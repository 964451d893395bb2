'use client'

import { useQuery } from '@tanstack/react-query'
import type { AboutDto } from '../../server/contract/about.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatBytes, formatDuration } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { dateTime } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'

export function AboutView() {
  const trpc = useTRPC()
  const about = useQuery(trpc.about.get.queryOptions(undefined, { refetchInterval: 60_000 }))
  return (
    <QueryView query={about} skeleton={<TableSkeleton columns={3} rows={10} />}>
      {(data) => <About about={data} />}
    </QueryView>
  )
}

const ISOLATION_TEXT: Record<AboutDto['functionIsolation']['level'], string> = {
  process:
    "Reward functions run without the service's secrets and without privileges, with limits on memory, processes and disk.",
  sandbox: 'Reward functions run in bubblewrap, with their own file system, processes and network.',
}

function About({ about }: { about: AboutDto }) {
  const database = formatBytes(about.databaseBytes)
  const folder = formatBytes(about.dataDirBytes)
  const isolation = about.functionIsolation
  const now = useNow()
  const running = formatDuration(now === 0 ? null : now - Date.parse(about.startedAt))
  const most = Math.max(1, ...about.tables.map(({ bytes }) => bytes))
  return (
    <>
      <FigureStrip label="The service">
        <Figure label="rewardops" value={about.version} detail={`Node ${about.nodeVersion}`} />
        <Figure
          label="Postgres"
          value={about.postgresVersion.split(' ')[0]}
          detail={about.embedded ? 'Embedded' : 'Set by DATABASE_URL'}
        />
        <Figure
          label="Database"
          value={database.value}
          unit={database.unit}
          detail="Including indexes"
        />
        <Figure
          label="Data folder"
          value={folder.value}
          {...(about.dataDirBytes === null ? {} : { unit: folder.unit })}
          detail={about.dataDirBytes === null ? 'Partly unreadable' : 'All files'}
        />
        <Figure
          label="Uptime"
          value={running.value}
          unit={running.unit}
          detail={`Since ${dateTime(Date.parse(about.startedAt))}`}
        />
        <Figure
          label="Function isolation"
          hint={[ISOLATION_TEXT[isolation.level], ...isolation.missing].join(' ')}
          value={capitalized(isolation.level)}
          detail={capitalized(isolation.how)}
        />
      </FigureStrip>
      <div className="grid lg:grid-cols-2">
        <Section title="Largest tables" note="Including indexes">
          <Scroll label="Largest tables">
            <table className="grid-table">
              <ColumnHeads
                columns={[
                  'Table',
                  { hidden: 'Share of largest table', className: 'w-1/2' },
                  { end: 'Size' },
                ]}
              />
              <tbody>
                {about.tables.map(({ name, bytes }) => (
                  <tr key={name}>
                    <td className="font-mono text-xs">{name}</td>
                    <td>
                      <SegmentBar
                        segments={[{ key: name, share: bytes / most, color: 'var(--ink-3)' }]}
                      />
                    </td>
                    <td className="end">
                      <Quantity of={formatBytes(bytes)} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </Section>
        <Section
          title="Active settings"
          note="Environment variables, read at start-up"
          className="border-t lg:border-t-0 lg:border-l"
        >
          <Scroll label="Active settings">
            <table className="grid-table">
              <ColumnHeads columns={['Setting', 'Value']} />
              <tbody>
                {about.settings.map(({ name, value, isDefault }) => (
                  <tr key={name}>
                    <td className="font-mono text-xs">{name}</td>
                    <td className={isDefault ? 'text-ink-3' : ''}>
                      {value === 'unset' ? (
                        'Unset'
                      ) : isDefault ? (
                        value
                      ) : (
                        <CopyText text={value} maxChars={40} className="text-xs" />
                      )}
                      {isDefault && value !== 'unset' && <span className="unit"> default</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </Section>
      </div>
    </>
  )
}
