'use client'

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useMemo, useState } from 'react'
import { SAMPLE_FAILURE_TEXT } from '../../../server/contract/sample-reason.ts'
import { useTRPC } from '../../api/trpc.ts'
import { RunName } from '../../batches/batch-cells.tsx'
import { formatCount, formatScore, percentText } from '../../format/numbers.ts'
import { PromptText } from '../../rollouts/prompt-text.tsx'
import { JsonValue } from '../../rollouts/raw-text.tsx'
import { ResponseText } from '../../rollouts/response-text.tsx'
import type { TextMark } from '../../rollouts/text-marks.ts'
import { PageLink } from '../../shell/page-link.tsx'
import { QueryView } from '../../ui/query-view.tsx'
import { Scroll } from '../../ui/scroll.tsx'
import { TableSkeleton } from '../../ui/skeleton.tsx'
import { SampleStatusView } from '../../ui/status.tsx'
import { ScoreCell } from '../sample-columns.tsx'
import type { ReadSample } from '../sample-texts.tsx'
import { Siblings } from '../siblings.tsx'
import type { Side } from './side-by-side-url.ts'
import type { TextDiff } from './word-diff.ts'

interface SideBySideProps<Of> {
  left: Of
  right: Of
  side: Side
  diff: boolean
  onOpen(side: Side, id: string): void
  onSide(side: Side): void
}

export function SideBySide({ left, right, ...shared }: SideBySideProps<string>) {
  const first = useSample(left)
  const second = useSample(right)
  const skeleton = <TableSkeleton columns={2} rows={10} />
  return (
    <QueryView query={first} skeleton={skeleton}>
      {(one) => (
        <QueryView query={second} skeleton={skeleton}>
          {(other) => <Both left={one} right={other} {...shared} />}
        </QueryView>
      )}
    </QueryView>
  )
}

/** A sample with its texts. It is refetched until the sample is scored or failed. */
export function useSample(id: string | null) {
  const trpc = useTRPC()
  return useQuery(
    trpc.samples.get.queryOptions(
      { id: id ?? '', imagesByHash: true },
      {
        enabled: id !== null,
        staleTime: ({ state }) =>
          state.data?.status === 'scored' || state.data?.status === 'failed'
            ? Number.POSITIVE_INFINITY
            : 1_000,
        // The previous sample stays visible until the new one has loaded.
        placeholderData: (before) => before,
        meta: id === null ? {} : { topics: [`batch:${id.slice(0, id.indexOf('-'))}`] },
      },
    ),
  )
}

function Both({ left, right, side, diff, onOpen, onSide }: SideBySideProps<ReadSample>) {
  const found = useDiff(left.response, right.response, diff)
  const isSamePrompt = useMemo(
    () => JSON.stringify(left.prompt) === JSON.stringify(right.prompt),
    [left, right],
  )
  const isSameTruth = JSON.stringify(left.groundTruth) === JSON.stringify(right.groundTruth)
  const keys = [
    ...new Set([...Object.keys(left.rewardExtraInfo), ...Object.keys(right.rewardExtraInfo)]),
  ]
  return (
    <Scroll label="Two samples" className="relative min-h-0 flex-1 overflow-y-auto">
      <div data-side-by-side={`${left.id} ${right.id}`}>
        <Columns
          sticky
          left={<Head sample={left} side="left" active={side} onOpen={onOpen} onSide={onSide} />}
          right={<Head sample={right} side="right" active={side} onOpen={onOpen} onSide={onSide} />}
        />
        {isSamePrompt ? (
          <Part title="Prompt" note="Same for both">
            <PromptText prompt={left.prompt} />
          </Part>
        ) : (
          <Columns
            left={
              <Part title="Prompt">
                <PromptText prompt={left.prompt} />
              </Part>
            }
            right={
              <Part title="Prompt">
                <PromptText prompt={right.prompt} />
              </Part>
            }
          />
        )}
        <Columns
          note={<DiffNote diff={diff} found={found} isSame={left.response === right.response} />}
          left={<Response sample={left} marks={found?.left} />}
          right={<Response sample={right} marks={found?.right} />}
        />
        {isSameTruth ? (
          <Part title="Ground truth" note="Same for both">
            <Truth sample={left} />
          </Part>
        ) : (
          <Columns
            left={
              <Part title="Ground truth">
                <Truth sample={left} />
              </Part>
            }
            right={
              <Part title="Ground truth">
                <Truth sample={right} />
              </Part>
            }
          />
        )}
        {keys.length > 0 && (
          <Columns
            left={<Extra sample={left} keys={keys} />}
            right={<Extra sample={right} keys={keys} />}
          />
        )}
      </div>
    </Scroll>
  )
}

/**
 * The differences of two responses, computed after the page is drawn. Undefined until then, and if `wanted` is false.
 */
function useDiff(left: string, right: string, wanted: boolean): TextDiff | undefined {
  const [found, setFound] = useState<{ of: [string, string]; diff: TextDiff }>()
  useEffect(() => {
    if (!wanted) return
    let isCurrent = true
    void import('./word-diff.ts').then(({ diffTexts }) => {
      if (isCurrent) setFound({ of: [left, right], diff: diffTexts(left, right) })
    })
    return () => {
      isCurrent = false
    }
  }, [left, right, wanted])
  return wanted && found?.of[0] === left && found.of[1] === right ? found.diff : undefined
}

function DiffNote({
  diff,
  found,
  isSame,
}: {
  diff: boolean
  found: TextDiff | undefined
  isSame: boolean
}) {
  if (!diff) return null
  const text = isSame
    ? 'The responses are the same.'
    : found === undefined
      ? 'Comparing…'
      : found.unit === 'none'
        ? 'The responses differ too much, or are too long, to highlight differences.'
        : `${percentText(found.common)} of the longer response in common, compared by ${found.unit === 'words' ? 'word' : 'line'}${
            found.unit === 'lines' ? ', because too many words differ' : ''
          }.`
  return (
    <p role="status" data-diff={found?.unit} className="num px-5 pt-3 text-xs text-ink-3">
      {text}
    </p>
  )
}

function Columns({
  left,
  right,
  note,
  sticky = false,
}: {
  left: ReactNode
  right: ReactNode
  note?: ReactNode
  sticky?: boolean
}) {
  return (
    <div className={`border-b ${sticky ? 'md:sticky md:top-0 md:z-20 md:bg-surface' : ''}`}>
      {note}
      <div className="grid md:grid-cols-2 md:divide-x">
        <div className="min-w-0 max-md:border-b" data-side="left">
          {left}
        </div>
        <div className="min-w-0" data-side="right">
          {right}
        </div>
      </div>
    </div>
  )
}

function Part({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className="px-5 py-3.5 not-last:border-b">
      <h3 className="mb-1.5 flex items-baseline gap-2 text-xs font-medium text-ink-3">
        {title}
        {note && <span className="num font-normal">{note}</span>}
      </h3>
      {children}
    </section>
  )
}

function Head({
  sample,
  side,
  active,
  onOpen,
  onSide,
}: {
  sample: ReadSample
  side: Side
  active: Side
  onOpen(side: Side, id: string): void
  onSide(side: Side): void
}) {
  const isActive = side === active
  return (
    <div
      data-active={isActive}
      className={`h-full border-t-2 px-5 py-2.5 ${isActive ? 'border-t-accent!' : 'border-t-transparent!'}`}
    >
      <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-0.5">
        <button
          type="button"
          aria-pressed={isActive}
          title="Selects this side for J and K, which step through its group"
          onClick={() => onSide(side)}
          className="num text-md font-medium hover:underline"
        >
          <ScoreCell row={sample} />
          <span className="sr-only">, select the {side} side for J and K</span>
        </button>
        {sample.verdict !== null && <span className="text-ink-2">{sample.verdict}</span>}
        {sample.status !== 'scored' && <SampleStatusView status={sample.status} />}
        {sample.advantage !== null && (
          <span className="num text-ink-3">Advantage {formatScore(sample.advantage)}</span>
        )}
        <PageLink
          href={`/samples?batch=${sample.batchId}&sample=${sample.id}`}
          className="ml-auto font-mono text-xs text-accent hover:underline"
        >
          {sample.id}
        </PageLink>
        <span className="num flex min-w-0 items-center gap-1.5 text-xs text-ink-3">
          <RunName run={sample.run} />
          Step {formatCount(sample.step)}
        </span>
      </div>
      {sample.reason !== null && (
        <p className="mt-0.5 text-xs text-bad">{SAMPLE_FAILURE_TEXT[sample.reason]}</p>
      )}
      <div className="mt-1.5">
        <Siblings sample={sample} onOpen={(id) => onOpen(side, id)} />
      </div>
    </div>
  )
}

const NO_MARKS: readonly TextMark[] = []

function Response({
  sample,
  marks,
}: {
  sample: ReadSample
  marks: readonly TextMark[] | undefined
}) {
  if (sample.textsRemovedAt !== null) {
    return (
      <Part title="Response">
        <p className="text-ink-2">Retention removed the texts of this sample.</p>
      </Part>
    )
  }
  return (
    <Part
      title="Response"
      note={
        sample.responseLength === null
          ? `${formatCount(sample.response.length)} characters`
          : `${formatCount(sample.responseLength)} tokens, ${formatCount(sample.response.length)} characters`
      }
    >
      <ResponseText
        key={sample.id}
        text={sample.response}
        extracted={sample.extracted}
        extra={sample.rewardExtraInfo}
        marks={marks ?? NO_MARKS}
      />
    </Part>
  )
}

function Truth({ sample }: { sample: ReadSample }) {
  return sample.groundTruth === null || sample.groundTruth === undefined ? (
    <p className="text-ink-3">None.</p>
  ) : (
    <JsonValue value={sample.groundTruth} />
  )
}

function Extra({ sample, keys }: { sample: ReadSample; keys: readonly string[] }) {
  return (
    <Part title="Reward extra info">
      <dl className="grid grid-cols-[minmax(90px,auto)_minmax(0,1fr)] gap-x-5 gap-y-0.5">
        {keys.map((key) => (
          <div key={key} className="contents">
            <dt className="font-mono text-xs leading-5 break-all text-ink-3">{key}</dt>
            <dd className="min-w-0">
              {sample.rewardExtraInfo[key] === undefined ? (
                <span className="text-ink-3">–</span>
              ) : (
                <JsonValue value={sample.rewardExtraInfo[key]} />
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Part>
  )
}
