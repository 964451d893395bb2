'use client'

import { ArrowLeftRight } from 'lucide-react'
import type { ReactNode } from 'react'
import type {
  ComparedBatchDto,
  ComparedScores,
  ComparePairDto,
} from '../../server/contract/compare.ts'
import { BatchLink, RunName } from '../batches/batch-cells.tsx'
import { formatCount, formatScore } from '../format/numbers.ts'
import { IconButton } from '../ui/button.tsx'
import { ProgressBar } from '../ui/progress-bar.tsx'
import { BatchStatusView } from '../ui/status.tsx'
import type { CompareProps } from './compare-url.ts'
import { SIDE_COLOR } from './pair-words.ts'

export function PairSides({ pair, url, onChange }: { pair: ComparePairDto } & CompareProps) {
  return (
    <div className="relative grid border-b @min-[700px]:grid-cols-2">
      <SideBlock
        side="first"
        batch={pair.first}
        scores={pair.scores.first}
        action={<Change side="first" pair={pair} onChange={onChange} />}
      />
      <div className="border-t @min-[700px]:border-t-0 @min-[700px]:border-l">
        <SideBlock
          side="second"
          batch={pair.second}
          scores={pair.scores.second}
          action={<Change side="second" pair={pair} onChange={onChange} />}
        />
      </div>
      <span className="absolute top-1/2 left-1/2 -translate-1/2 rounded-md border bg-surface @max-[700px]:hidden">
        <IconButton
          label="Swap first and second"
          onClick={() =>
            onChange({
              first: pair.second.batchId,
              second: pair.first.batchId,
              open: null,
              cell: url.cell && [url.cell[1], url.cell[0]],
            })
          }
        >
          <ArrowLeftRight size={14} aria-hidden />
        </IconButton>
      </span>
    </div>
  )
}

function Change({
  side,
  pair,
  onChange,
}: { side: 'first' | 'second'; pair: ComparePairDto } & Pick<CompareProps, 'onChange'>) {
  const other = side === 'first' ? pair.second : pair.first
  return (
    <button
      type="button"
      className="text-xs text-accent hover:underline"
      aria-label={`Change ${pair[side].batchId}`}
      onClick={() =>
        onChange({ first: other.batchId, second: null, open: null, uid: null, cell: null }, 'push')
      }
    >
      Change
    </button>
  )
}

/** One of the two batches. The reward comes first, because the two batches differ in their rewards. */
export function SideBlock({
  side,
  batch,
  scores,
  action,
}: {
  side: 'first' | 'second'
  batch: ComparedBatchDto
  scores?: ComparedScores
  action?: ReactNode
}) {
  const isRunning = batch.status === 'running' || batch.status === 'open'
  return (
    <section aria-label={side === 'first' ? 'First batch' : 'Second batch'} className="px-5 py-4">
      <p className="flex items-center gap-2">
        <span
          className="size-2.5 shrink-0 rounded-[3px]"
          style={{ background: SIDE_COLOR[side] }}
          aria-hidden
        />
        <span className="text-xs text-ink-3">{side === 'first' ? 'First' : 'Second'}</span>
        <span className="min-w-0 truncate text-md font-semibold" title={batch.rewardName}>
          {batch.rewardName}
        </span>
        {batch.rewardOptions !== '' && (
          <span
            className="min-w-0 truncate font-mono text-xs text-ink-3"
            title={batch.rewardOptions}
          >
            {batch.rewardOptions}
          </span>
        )}
        {action && <span className="ml-auto shrink-0 md:px-4">{action}</span>}
      </p>
      <p className="num mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-ink-2">
        <BatchLink batchId={batch.batchId} />
        <BatchStatusView status={batch.status} />
        <RunName run={batch.run} />
        <span>Step {formatCount(batch.step)}</span>
        {batch.rescoredFrom !== null && (
          <span className="text-ink-3">
            Rescored from <BatchLink batchId={batch.rescoredFrom} />
          </span>
        )}
      </p>
      {isRunning ? (
        <div className="mt-2.5 flex items-center gap-3 text-xs text-ink-2">
          <span className="w-40">
            <ProgressBar
              scored={batch.scored}
              failed={batch.failed}
              total={batch.samples}
              running
            />
          </span>
          <span className="num">
            {formatCount(batch.scored + batch.failed)} of {formatCount(batch.samples)} ended
          </span>
        </div>
      ) : (
        <p className="num mt-1 text-xs text-ink-3">
          {scores === undefined ? (
            <>
              {formatCount(batch.samples)} samples, mean {formatScore(batch.mean)}
            </>
          ) : (
            <>
              Mean {formatScore(scores.mean)} ± {formatScore(scores.std)}, from{' '}
              {formatScore(scores.min)} to {formatScore(scores.max)}
            </>
          )}
        </p>
      )}
    </section>
  )
}
