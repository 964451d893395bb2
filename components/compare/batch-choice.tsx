'use client'

import { type FormEvent, useState } from 'react'
import type { ComparedBatchDto } from '../../server/contract/compare.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, formatScore } from '../format/numbers.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { TextField } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { BatchStatusView } from '../ui/status.tsx'

export function BatchChoice({
  label,
  batches,
  onChoose,
}: {
  label: string
  batches: readonly ComparedBatchDto[]
  onChoose(batchId: string): void
}) {
  return (
    <Scroll label={label}>
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Batch',
            'Reward',
            'Run',
            'Status',
            { end: 'Step' },
            { end: 'Samples' },
            { end: 'Mean' },
            { end: 'Submitted' },
            { hidden: 'Choose' },
          ]}
        />
        <tbody>
          {batches.map((batch) => (
            <tr key={batch.batchId}>
              <td className="font-mono text-xs font-medium">{batch.batchId}</td>
              <td>
                <span className="flex max-w-80">
                  <RewardOf batch={batch} />
                </span>
              </td>
              <td className="name">
                <RunName run={batch.run} link={false} />
              </td>
              <td>
                <BatchStatusView status={batch.status} />
              </td>
              <td className="num end">{formatCount(batch.step)}</td>
              <td className="num end">{formatCount(batch.samples)}</td>
              <td className="num end">{formatScore(batch.mean)}</td>
              <td className="end text-ink-2">
                <Ago at={batch.submittedAt} />
              </td>
              <td className="end">
                <Button
                  small
                  aria-label={`Compare with ${batch.batchId}`}
                  onClick={() => onChoose(batch.batchId)}
                >
                  Compare
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

/** The name of a reward with the options of its rule or manager, which are often the only difference. */
export function RewardOf({ batch }: { batch: ComparedBatchDto }) {
  return (
    <span className="min-w-0 truncate" title={`${batch.rewardName} ${batch.rewardOptions}`.trim()}>
      {batch.rewardName}
      {batch.rewardOptions !== '' && (
        <span className="ml-1.5 font-mono text-xs text-ink-3">{batch.rewardOptions}</span>
      )}
    </span>
  )
}

export function BatchField({
  label,
  action,
  onChoose,
}: {
  label: string
  action: string
  onChoose(batchId: string): void
}) {
  const [text, setText] = useState('')
  const [error, setError] = useState<string>()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const id = /^b?(\d{1,18})$/.exec(text.trim())?.[1]
    if (id === undefined) setError('Enter a batch ID, such as b12.')
    else onChoose(`b${id}`)
  }
  return (
    <form onSubmit={submit} noValidate className="flex items-start gap-2">
      <div className="w-40">
        <TextField
          label={label}
          mono
          placeholder="b12"
          value={text}
          error={error}
          onChange={(event) => {
            setText(event.target.value)
            setError(undefined)
          }}
        />
      </div>
      <Button type="submit" className="mt-5">
        {action}
      </Button>
    </form>
  )
}
