import { type BatchViewDto, MAX_BREAKDOWN_ROWS } from '../../server/contract/pages.ts'
import {
  SAMPLE_FAILURE_TEXT,
  type SampleFailureReason,
} from '../../server/contract/sample-reason.ts'
import { hueOf } from '../charts/hue.ts'
import { comparePairHref } from '../compare/compare-url.ts'
import {
  formatCount,
  formatDuration,
  formatPercent,
  formatScore,
  percentText,
  plural,
} from '../format/numbers.ts'
import { ServerName } from '../servers/server-cells.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { BatchLink } from './batch-cells.tsx'
import { GroupSignals } from './group-signals.tsx'

export function BatchSide({ batch }: { batch: BatchViewDto }) {
  return (
    <div className="min-w-0 border-t xl:border-t-0 xl:border-l [&>section]:border-b">
      <BatchRelations batch={batch} />
      <GroupSignals batch={batch} />
      <DataSources batch={batch} />
      <Failures batch={batch} />
      {batch.servers.length > 0 && <Servers batch={batch} />}
      <Times batch={batch} />
      <RewardSpec batch={batch} />
    </div>
  )
}

/** Whether more rows may exist than are listed. */
const isCut = ({ length }: readonly unknown[]) => length >= MAX_BREAKDOWN_ROWS

function DataSources({ batch }: { batch: BatchViewDto }) {
  return (
    <Section
      title="Data sources"
      note={`${isCut(batch.dataSources) ? 'Largest ' : ''}${formatCount(batch.dataSources.length)}`}
    >
      <Scroll label="Data sources">
        <table className="grid-table">
          <ColumnHeads
            columns={['Source', { end: 'Scored' }, { end: 'Failed' }, { end: 'Mean' }]}
          />
          <tbody>
            {batch.dataSources.map((source) => (
              <tr key={source.dataSource}>
                <td className="max-w-44">
                  <PageLink
                    href={`/samples?batch=${batch.batchId}&dataSource=${encodeURIComponent(source.dataSource)}`}
                    className="flex items-center gap-2 hover:underline"
                    title={source.dataSource}
                  >
                    <span
                      className="size-2 shrink-0 rounded-[2px]"
                      style={{ background: hueOf('source', source.dataSource) }}
                      aria-hidden
                    />
                    <span className="truncate">{source.dataSource}</span>
                  </PageLink>
                </td>
                <td className="num end">
                  {formatCount(source.scored)}
                  <span className="unit">/{formatCount(source.samples)}</span>
                </td>
                <td className={`num end ${source.failed > 0 ? 'text-bad' : 'text-ink-3'}`}>
                  {formatCount(source.failed)}
                </td>
                <td className="num end">{formatScore(source.mean)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

function Failures({ batch }: { batch: BatchViewDto }) {
  if (batch.failures.length === 0) {
    return (
      <Section title="Failures">
        <p className="px-5 pb-4 text-ink-2">
          {batch.scored + batch.failed === 0
            ? 'No samples are finished.'
            : `No failures among ${plural(batch.scored + batch.failed, 'finished sample')}.`}
        </p>
      </Section>
    )
  }
  const most = Math.max(...batch.failures.map((failure) => failure.count))
  return (
    <Section
      title="Failures"
      note={`${plural(batch.failed, 'sample')}, ${percentText(batch.failed / Math.max(1, batch.samples))} of the batch`}
    >
      <ul className="pb-3">
        {batch.failures.map(({ reason, count }) => (
          <li key={reason}>
            <PageLink
              href={`/samples?batch=${batch.batchId}&status=failed&reason=${reason}`}
              className="block px-5 py-1.5 hover:bg-hover"
            >
              <span className="flex items-center gap-3">
                <span className="w-32 shrink-0 font-mono text-xs">{reason}</span>
                <SegmentBar
                  className="h-2 min-w-0 flex-1"
                  segments={[{ key: reason, share: count / most, className: 'hatch' }]}
                />
                <span className="num w-12 text-right">{formatCount(count)}</span>
              </span>
              <span className="mt-0.5 block text-xs text-ink-3">
                {SAMPLE_FAILURE_TEXT[reason as SampleFailureReason] ?? ''}
              </span>
            </PageLink>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function Servers({ batch }: { batch: BatchViewDto }) {
  const total = batch.servers.reduce((sum, server) => sum + server.samples, 0)
  return (
    <Section
      title="Scoring servers"
      note={`${plural(total, 'sample')}${isCut(batch.servers) ? ` of the busiest ${formatCount(batch.servers.length)} servers` : ''}`}
    >
      <SegmentBar
        className="mx-5 mb-1 h-2"
        segments={batch.servers.map(({ serverName, samples }) => ({
          ...{ key: serverName, share: samples / Math.max(1, total) },
          color: hueOf('server', serverName),
        }))}
      />
      <Scroll label="Servers">
        <table className="grid-table">
          <ColumnHeads columns={['Server', { end: 'Samples' }, { end: 'p50' }, { end: 'p99' }]} />
          <tbody>
            {batch.servers.map((server) => (
              <tr key={server.serverName}>
                <td className="max-w-40">
                  <ServerName name={server.serverName} />
                </td>
                <td className="end" title={`${formatCount(server.samples)} samples`}>
                  <Quantity of={formatPercent(total === 0 ? null : server.samples / total)} />
                </td>
                <td className="end">
                  <Quantity of={formatDuration(server.p50Ms)} />
                </td>
                <td className="end">
                  <Quantity of={formatDuration(server.p99Ms)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

function Times({ batch }: { batch: BatchViewDto }) {
  if (batch.queueMsP50 === null && batch.scoreMsP50 === null) return null
  const rows = [
    ['Queue', batch.queueMsP50, batch.queueMsP95],
    ['Scoring', batch.scoreMsP50, batch.scoreMsP95],
  ] as const
  return (
    <Section title="Latency per sample" note={`n = ${formatCount(batch.scored + batch.failed)}`}>
      <table className="grid-table">
        <ColumnHeads columns={['Stage', { end: 'p50' }, { end: 'p95' }]} />
        <tbody>
          {rows.map(([what, p50, p95]) => (
            <tr key={what}>
              <td>{what}</td>
              <td className="end">
                <Quantity of={formatDuration(p50)} />
              </td>
              <td className="end">
                <Quantity of={formatDuration(p95)} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function RewardSpec({ batch }: { batch: BatchViewDto }) {
  const fields = Object.entries(batch.reward).filter(
    ([, value]) => value !== null && value !== false && JSON.stringify(value) !== '{}',
  )
  return (
    <Section title="Reward" note={batch.rewardName}>
      <dl className="px-5 pb-4">
        {fields.map(([key, value]) => (
          <div key={key} className="flex gap-4 py-0.5">
            <dt className="w-32 shrink-0 text-ink-3">{key}</dt>
            <dd className="num min-w-0 break-words font-mono text-xs leading-5">
              {typeof value === 'object' ? JSON.stringify(value) : String(value)}
            </dd>
          </div>
        ))}
        <div className="flex gap-4 py-0.5">
          <dt className="w-32 shrink-0 text-ink-3">groupSize</dt>
          <dd className="num font-mono text-xs leading-5">
            {batch.groupSize ?? 'all samples of a uid'}
          </dd>
        </div>
      </dl>
    </Section>
  )
}

function BatchRelations({
  batch,
}: {
  batch: Pick<BatchViewDto, 'batchId' | 'rescoredFrom' | 'rescores'>
}) {
  const { rescoredFrom, rescores } = batch
  if (rescoredFrom === null && rescores.length === 0) return null
  const rows = [
    ['Rescore of', rescoredFrom === null ? [] : [rescoredFrom]],
    ['Rescored as', rescores],
  ] as const
  const count = rescores.length + (rescoredFrom === null ? 0 : 1)
  return (
    <Section title="Rescores" note={formatCount(count)}>
      <dl className="px-5 pb-4">
        {rows.map(
          ([what, ids]) =>
            ids.length > 0 && (
              <div key={what} className="flex items-baseline gap-4 py-0.5">
                <dt className="w-32 shrink-0 text-ink-3">{what}</dt>
                <dd className="flex min-w-0 flex-wrap gap-x-3">
                  {ids.map((id) => (
                    <span key={id} className="inline-flex items-baseline gap-2">
                      <BatchLink batchId={id} />
                      <PageLink
                        href={
                          id === rescoredFrom
                            ? comparePairHref(id, batch.batchId)
                            : comparePairHref(batch.batchId, id)
                        }
                        aria-label={`Compare with ${id}`}
                        className="text-xs text-accent hover:underline"
                      >
                        Compare
                      </PageLink>
                    </span>
                  ))}
                </dd>
              </div>
            ),
        )}
      </dl>
    </Section>
  )
}
