import type { WorkerDto } from '../../server/contract/pages.ts'
import { MAX_LISTED_WORKERS } from '../../server/contract/worker-stats.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { formatCount, formatDuration, formatRate } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { WorkerStateView } from '../ui/status.tsx'
import { WorkerName } from './worker-name.tsx'

export function WorkersGlance({
  workers,
  className,
}: {
  workers: WorkerDto[]
  className?: string
}) {
  const here = workers.filter((worker) => worker.state !== 'dead')
  const dead = workers.length - here.length
  // Live workers are listed first. If a full list contains dead workers, only further dead workers are missing.
  // Otherwise, live workers may be missing too.
  const isCut = workers.length >= MAX_LISTED_WORKERS
  return (
    <Section
      title={<PageLink href="/workers">Workers</PageLink>}
      note={
        dead > 0
          ? `${formatCount(here.length)} alive, ${isCut ? 'newest ' : ''}${formatCount(dead)} dead`
          : `${isCut ? 'Newest ' : ''}${formatCount(here.length)} alive`
      }
      className={className ?? ''}
    >
      {here.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No worker is alive, so accepted batches are queued. Start one with{' '}
          <code className="font-mono text-xs">npm run worker</code>.
        </p>
      ) : (
        <Scroll label="Workers">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Worker',
                'State',
                'Samples/s, last 60 s',
                { end: 'In flight' },
                { end: 'Event-loop delay p99' },
              ]}
            />
            <tbody>
              {here.map((worker) => (
                <tr key={worker.id}>
                  <td>
                    <WorkerName id={worker.id} />
                  </td>
                  <td>
                    <WorkerStateView {...worker} />
                  </td>
                  <td>
                    <span className="flex items-center gap-2.5">
                      <span className="num w-10 text-right">
                        {formatRate(worker.samplesPerSecond)}
                      </span>
                      <span className="h-5 w-28">
                        <Sparkline
                          readings={worker.samplesPerSecondHistory}
                          label={`Samples per second of ${worker.id}`}
                          height={20}
                        />
                      </span>
                    </span>
                  </td>
                  <td className="num end">{formatCount(worker.inFlight)}</td>
                  <td className="end">
                    <Quantity of={formatDuration(worker.eventLoopP99Ms)} />
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
