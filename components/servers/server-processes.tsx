import type { ServerDetailDto } from '../../server/wire/server-detail.ts'
import { formatCompact, formatCount, formatRate, plural } from '../format/numbers.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { HealthView } from '../ui/status.tsx'
import { WorkerName } from '../workers/worker-name.tsx'

/** How each process that calls the server sees it: every one has a breaker and a limit of its own. */
export function ServerProcesses({
  server,
  className,
}: {
  server: ServerDetailDto
  className: string
}) {
  const processes = server.workers.toSorted((a, b) =>
    a.workerId.localeCompare(b.workerId, 'en', { numeric: true }),
  )
  const ejections = server.workers.reduce((sum, worker) => sum + (worker.ejections ?? 0), 0)
  return (
    <Section
      title="Breaker"
      note={
        server.workers.length === 0
          ? undefined
          : `${plural(server.workers.length, 'process', 'processes')}, ${ejections === 0 ? 'not put out since they started' : `put out ${plural(ejections, 'time')}`}`
      }
      className={className}
    >
      {server.workers.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No process reports of it yet. Each one that calls it appears here within a few seconds.
        </p>
      ) : (
        <Scroll label="Breaker, by process">
          <table className="grid-table [&_:is(td,th):not(:first-child,:last-child)]:px-2">
            <ColumnHeads
              columns={[
                'Process',
                'Health',
                { end: 'Faults', title: 'Faults in a row; five put it out' },
                {
                  end: 'In flight/slots',
                  title: 'Calls in flight, and slots leased of the server’s limit',
                },
                { end: 'Limit', title: 'What this process lets itself have in flight' },
                { end: 'Waiting' },
                { end: 'Req/s' },
                { end: 'Tokens/s' },
                { end: 'Put out' },
              ]}
            />
            <tbody>
              {processes.map((worker) => (
                <tr key={worker.workerId} data-process={worker.workerId}>
                  <td>
                    {worker.workerId === 'server' ? (
                      <span title="For the router address and probes">server process</span>
                    ) : (
                      <WorkerName id={worker.workerId} />
                    )}
                  </td>
                  <td>
                    <HealthView health={worker.health ?? 'ok'} />
                  </td>
                  <td
                    className={`num end ${worker.consecutiveFaults ? 'text-warn' : 'text-ink-3'}`}
                  >
                    {formatCount(worker.consecutiveFaults ?? 0)}
                  </td>
                  <td className="num end">
                    {formatCount(worker.inFlight)}
                    <span className="unit">/{formatCount(worker.slots)}</span>
                  </td>
                  <td className="num end">
                    {formatCount(worker.limit === undefined ? null : Math.round(worker.limit))}
                  </td>
                  <td className="num end">{formatCount(worker.waiting)}</td>
                  <td className="num end">{formatRate(worker.requestsPerSecond)}</td>
                  <td className="num end">
                    {worker.tokensPerSecond == null
                      ? '–'
                      : formatCompact(Math.round(worker.tokensPerSecond))}
                  </td>
                  <td className={`num end ${worker.ejections ? '' : 'text-ink-3'}`}>
                    {formatCount(worker.ejections ?? 0)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}
