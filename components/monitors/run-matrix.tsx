import {
  MONITOR_DEFINITIONS,
  MONITORS,
  type MonitoredRunDto,
} from '../../server/contract/monitors.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, plural } from '../format/numbers.ts'
import { SeededMark } from '../runs/seeded-mark.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { MonitorStateIcon } from './monitor-state.tsx'
import { monitorHref, readingText } from './monitor-words.ts'

export function RunMatrix({
  runs,
  hasMore,
  pending,
  chosen,
  onChoose,
}: {
  runs: readonly MonitoredRunDto[]
  /** Whether more runs are monitored than are listed. */
  hasMore: boolean
  pending: number
  chosen: MonitoredRunDto | null
  onChoose(run: MonitoredRunDto): void
}) {
  return (
    <Section
      title="Runs"
      note={
        (hasMore
          ? `Newest ${formatCount(runs.length)}`
          : `${formatCount(runs.length)}, newest batch first`) +
        (pending > 0 ? `; ${plural(pending, 'batch', 'batches')} not checked yet` : '')
      }
      className="border-b"
    >
      <Scroll label="Monitors by run">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              { start: 'Run', className: 'name' },
              { end: 'Step' },
              ...MONITORS.map((monitor) => ({
                start: MONITOR_DEFINITIONS[monitor].short,
                title: `${MONITOR_DEFINITIONS[monitor].label}: ${MONITOR_DEFINITIONS[monitor].measures}`,
              })),
              { end: 'Last batch' },
            ]}
          />
          <tbody>
            {runs.map((row) => {
              const isChosen = row === chosen
              return (
                <tr key={`${row.run} ${row.split}`} className={isChosen ? 'bg-selected' : ''}>
                  <td className="name">
                    <span className="flex flex-wrap items-center gap-x-2">
                      <button
                        type="button"
                        aria-pressed={isChosen}
                        onClick={() => onChoose(row)}
                        className="min-w-0 font-medium hover:underline"
                      >
                        <RunName run={row.run} link={false} wraps />
                      </button>
                      {row.split === 'val' && (
                        <span className="text-xs text-ink-3">Validation</span>
                      )}
                      {row.seeded && (
                        <span className="min-w-0 max-sm:hidden">
                          <SeededMark />
                        </span>
                      )}
                    </span>
                  </td>
                  <td className="num end">{formatCount(row.lastStep)}</td>
                  {row.monitors.map(({ monitor, state, value }) => {
                    const { label } = MONITOR_DEFINITIONS[monitor]
                    const icon = (
                      <MonitorStateIcon
                        state={state}
                        about={value === null ? label : `${label} ${readingText(monitor, value)}`}
                      />
                    )
                    const isOpen = state === 'warning' || state === 'alerting'
                    return (
                      <td key={monitor}>
                        {isOpen ? (
                          <PageLink
                            href={monitorHref(row.run, row.split, monitor)}
                            className="inline-flex items-center gap-1.5 align-middle hover:underline"
                          >
                            {icon}
                            <span
                              className={`num text-xs ${state === 'alerting' ? 'text-bad' : 'text-warn'}`}
                            >
                              {readingText(monitor, value)}
                            </span>
                          </PageLink>
                        ) : (
                          icon
                        )}
                      </td>
                    )
                  })}
                  <td className="end text-ink-2">
                    <Ago at={row.lastAt} />
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}
