'use client'

import { useMemo } from 'react'
import type { ComparePairDto } from '../../server/contract/compare.ts'
import { ChartFrame, Legend } from '../charts/chart-frame.tsx'
import { prepareCdf } from '../charts/compare.prepare.ts'
import { prepareDistribution } from '../charts/distribution.prepare.ts'
import { prepareJoint } from '../charts/joint.prepare.ts'
import { JointPlot } from '../charts/joint-plot.tsx'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { formatCount, formatScore, percentText } from '../format/numbers.ts'
import type { CompareProps } from './compare-url.ts'
import { showDisagreements } from './compared-samples.tsx'
import { SIDE_COLOR } from './pair-words.ts'

const CdfPlot = lazyPlot(async () => (await import('../charts/compare-plots.tsx')).CdfPlot)
const DistributionPlot = lazyPlot(
  async () => (await import('../charts/batch-plots.tsx')).DistributionPlot,
)

const TABLE_ROWS = 200

export function PairCharts({
  pair,
  onChange,
}: Pick<CompareProps, 'onChange'> & { pair: ComparePairDto }) {
  return (
    <div className="grid @min-[900px]:grid-cols-2">
      <JointChart pair={pair} onChange={onChange} />
      <div className="grid min-w-0 border-t @min-[900px]:border-t-0 @min-[900px]:border-l">
        <CdfChart pair={pair} />
        <DifferenceChart pair={pair} />
      </div>
    </div>
  )
}

function JointChart({ pair, onChange }: Pick<CompareProps, 'onChange'> & { pair: ComparePairDto }) {
  const { joint } = pair
  const data = useMemo(() => (joint === null ? null : prepareJoint(joint)), [joint])
  if (data === null) {
    return (
      <section className="px-5 py-3">
        <h2 className="text-sm">Joint score distribution</h2>
        <p className="mt-1 text-xs text-ink-3">
          The score range is too large to draw. The numbers below are still valid.
        </p>
      </section>
    )
  }
  const cells = data.cells.toSorted((a, b) => b.samples - a.samples)
  return (
    <ChartFrame
      title={data.isTable ? 'Confusion matrix' : 'Joint score distribution'}
      note={
        data.isTable
          ? `n = ${formatCount(data.n)}`
          : `n = ${formatCount(data.n)}, samples in ${data.columns} × ${data.rows} bins${data.equal ? '; scores are equal on the dashed line' : ''}`
      }
      height={460}
      chart={
        <JointPlot
          data={data}
          first={pair.first.rewardName}
          second={pair.second.rewardName}
          onCell={(cell) => {
            // The list is sorted by score, because a sample alone in its group has no advantage and would be omitted.
            onChange({ cell, by: 'score', signFlipped: false, uid: null }, 'push')
            showDisagreements()
          }}
        />
      }
      table={{
        maxShown: TABLE_ROWS,
        head: ['First', 'Second', 'Samples', 'Share of samples'],
        rows: () =>
          cells.map((cell) => [
            cell.first,
            cell.second,
            formatCount(cell.samples),
            percentText(cell.samples / data.n),
          ]),
      }}
    />
  )
}

function CdfChart({ pair }: { pair: ComparePairDto }) {
  const data = useMemo(() => prepareCdf(pair.cdf), [pair.cdf])
  return (
    <ChartFrame
      title="Cumulative score distribution"
      note={
        <span className="inline-flex flex-wrap gap-x-3">
          n = {formatCount(pair.n)}
          <Legend
            entries={[
              { label: 'First', color: SIDE_COLOR.first },
              { label: 'Second', color: SIDE_COLOR.second },
            ]}
          />
        </span>
      }
      chart={<CdfPlot data={data} n={pair.n} />}
      table={{
        maxShown: TABLE_ROWS,
        head: ['Score', 'First', 'Second'],
        rows: () =>
          pair.cdf.values.map((value, at) => [
            formatScore(value),
            percentText(pair.cdf.first[at] as number),
            percentText(pair.cdf.second[at] as number),
          ]),
      }}
    />
  )
}

/**
 * The color of the reward that scored higher: the first reward if the difference is negative, the second if it is
 * positive. A bin that contains 0 is neutral.
 */
function sideOf({ from, to }: { from: number; to: number }): string {
  return to < 0 ? SIDE_COLOR.first : from > 0 ? SIDE_COLOR.second : 'var(--data-8)'
}

function DifferenceChart({ pair }: { pair: ComparePairDto }) {
  const { score } = pair.delta
  const data = useMemo(
    () => prepareDistribution(score.distribution, { log: false }),
    [score.distribution],
  )
  return (
    <ChartFrame
      className="border-t"
      title="Difference, second − first"
      note={`n = ${formatCount(data.n)}; mean ${formatScore(score.mean)} ± ${formatScore(score.std)}`}
      chart={
        <DistributionPlot
          data={data}
          title={`Differences of ${formatCount(data.n)} samples`}
          label="second − first:"
          fill={sideOf}
          axisWidth={48}
        />
      }
      table={{
        head: ['Difference', 'Samples', 'Share of samples'],
        rows: data.rows.map((row) => [row.label, formatCount(row.count), row.share]),
      }}
    />
  )
}
