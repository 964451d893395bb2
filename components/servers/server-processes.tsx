import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import { formatCompact, formatCount, formatRate, plural } from '../format/numbers.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { HealthView } from '../ui/status.tsx'
import { WorkerName } from '../workers/worker-name.tsx'

/** The server as seen by each process. Every process has its own ejection state and limit. */
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
      title="Outlier detection"
      note={
        server.workers.length === 0
          ? undefined
          : `${plural(server.workers.length, 'process', 'processes')}, ${ejections === 0 ? 'no ejections since start' : `${plural(ejections, 'ejection')}`}`
      }
      className={className}
    >
      {server.workers.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No process of this service has reported yet. A process appears here a few seconds after
          its first request to the server.
        </p>
      ) : (
        <Scroll label="Outlier detection by process">
          <table className="grid-table [&_:is(td,th):not(:first-child,:last-child)]:px-2">
            <ColumnHeads
              columns={[
                'Process',
                'Health',
                {
                  end: 'Faults',
                  title:
                    'Failed requests in a row, not counting busy and refused ones. Five eject the server.',
                },
                {
                  end: 'In flight/slots',
                  title:
                    'Requests in flight, and the slots that this process leases from the server’s limit. Each sample of a micro-batch counts as one request.',
                },
                {
                  end: 'Limit',
                  title: 'Maximum number of requests that this process can have in flight',
                },
                {
                  end: 'Waiting',
                  title:
                    'Samples of this process that are waiting for a slot on any server of the pool',
                },
                { end: 'Req/s' },
                { end: 'Tokens/s' },
                { end: 'Ejections' },
              ]}
            />
            <tbody>
              {processes.map((worker) => (
                <tr key={worker.workerId} data-process={worker.workerId}>
                  <td>
                    {worker.workerId === 'server' ? (
                      <span title="Serves the router address and sends the probes">
                        Server process
                      </span>
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
