import {
  type IncidentDto,
  MONITOR_DEFINITIONS,
  type MonitorName,
} from '../../server/contract/monitors.ts'
import { BatchLink, RunName } from '../batches/batch-cells.tsx'
import { formatCount } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { MonitorStateView } from './monitor-state.tsx'
import { incidentHref, monitorLabel, readingText, thresholdText } from './monitor-words.ts'

export function IncidentTable({
  incidents,
  withRun = true,
}: {
  incidents: readonly IncidentDto[]
  withRun?: boolean
}) {
  return (
    <Scroll label="Incidents">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Severity',
            'Monitor',
            ...(withRun ? ['Run or server'] : []),
            'Opened',
            'Resolved',
            { end: 'Opening value', title: 'The value that opened the incident.' },
            {
              end: 'Worst value',
              title: 'The worst value so far, or until the incident was resolved.',
            },
            {
              end: 'Latest value',
              title:
                'The value of the last batch, or of the batch that resolved the incident. An incident resolves after three consecutive batches whose values are more than 10 % better than the warning threshold.',
            },
            { end: 'Threshold' },
            'Detail',
          ]}
        />
        <tbody>
          {incidents.map((incident) => (
            <tr key={incident.id} data-incident={incident.monitor}>
              <td>
                <MonitorStateView state={incident.severity} />
              </td>
              <td className="font-medium">
                <PageLink href={incidentHref(incident)} className="hover:underline">
                  {monitorLabel(incident.monitor)}
                </PageLink>
              </td>
              {withRun && (
                <td className="name">
                  {incident.run === null ? (
                    <span className="font-mono text-xs">{incident.subject}</span>
                  ) : (
                    <span className="flex flex-wrap items-center gap-x-2">
                      <RunName run={incident.run} wraps />
                      {incident.split === 'val' && (
                        <span className="text-xs text-ink-3">Validation</span>
                      )}
                    </span>
                  )}
                </td>
              )}
              <td>
                <When
                  step={incident.openedStep}
                  batchId={incident.openedBatchId}
                  at={incident.openedAt}
                />
              </td>
              <td>
                {incident.closedAt === null ? (
                  <span className="font-medium">Open</span>
                ) : (
                  <When
                    step={incident.closedStep}
                    batchId={incident.closedBatchId}
                    at={incident.closedAt}
                  />
                )}
              </td>
              <td className="num end">{readingText(incident.monitor, incident.value)}</td>
              <td
                className="num end"
                title={
                  incident.worstStep === null
                    ? undefined
                    : `At step ${formatCount(incident.worstStep)}`
                }
              >
                {readingText(incident.monitor, incident.worst)}
              </td>
              <td className="num end">{readingText(incident.monitor, incident.latest)}</td>
              <td className="num end text-ink-2">
                {incident.threshold === null || !(incident.monitor in MONITOR_DEFINITIONS)
                  ? '–'
                  : thresholdText(incident.monitor as MonitorName, incident.threshold)}
              </td>
              <td className="max-w-72 truncate text-ink-2" title={incident.detail ?? undefined}>
                {incident.detail ?? ''}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function When({ step, batchId, at }: { step: number | null; batchId: string | null; at: string }) {
  return (
    <span className="num inline-flex items-baseline gap-2 whitespace-nowrap">
      {step !== null && `Step ${formatCount(step)}`}
      {batchId !== null && <BatchLink batchId={batchId} />}
      <span className="text-xs text-ink-3">
        <Ago at={at} />
      </span>
    </span>
  )
}
