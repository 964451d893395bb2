'use client'

import { useQuery } from '@tanstack/react-query'
import type { ComparedSampleDto } from '../../server/contract/compare.ts'
import { SAMPLE_FAILURE_TEXT } from '../../server/contract/sample-reason.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, formatPercent, formatScore, formatSigned } from '../format/numbers.ts'
import { PromptText } from '../rollouts/prompt-text.tsx'
import { JsonValue } from '../rollouts/raw-text.tsx'
import { ResponseText, TextViewSwitch } from '../rollouts/response-text.tsx'
import { GroundTruthPart, type ReadSample } from '../samples/sample-texts.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { DockedPanel, PanelPart } from '../ui/docked-panel.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { SIDE_COLOR } from './pair-words.ts'

export function ComparedPanel({
  open,
  row,
  onClose,
  onWalk,
}: {
  open: { first: string; second: string }
  row: ComparedSampleDto | null
  onClose(): void
  onWalk(by: 1 | -1): void
}) {
  const trpc = useTRPC()
  const first = useQuery(
    trpc.samples.get.queryOptions({ id: open.first, imagesByHash: true }, { staleTime: 60_000 }),
  )
  const second = useQuery(
    trpc.samples.get.queryOptions({ id: open.second, imagesByHash: true }, { staleTime: 60_000 }),
  )
  return (
    <DockedPanel
      label={`Samples ${open.first} and ${open.second}`}
      opener={`Open ${open.first} and ${open.second}`}
      heading={
        <h2 className="min-w-0 truncate font-mono text-xs">
          {open.first} <span className="text-ink-3">and</span> {open.second}
        </h2>
      }
      noun="disagreement"
      details="Sample details"
      sticky
      onClose={onClose}
      onWalk={onWalk}
    >
      <QueryView query={first} skeleton={<TableSkeleton columns={2} rows={8} />}>
        {(one) => (
          <QueryView query={second} skeleton={<TableSkeleton columns={2} rows={8} />}>
            {(other) => <Both first={one} second={other} row={row} />}
          </QueryView>
        )}
      </QueryView>
    </DockedPanel>
  )
}

function Both({
  first,
  second,
  row,
}: {
  first: ReadSample
  second: ReadSample
  row: ComparedSampleDto | null
}) {
  const isSameResponse = first.response === second.response
  const keys = [
    ...new Set([...Object.keys(first.rewardExtraInfo), ...Object.keys(second.rewardExtraInfo)]),
  ]
  return (
    <div data-compared-sample={first.id}>
      <div className="grid grid-cols-2 border-b">
        <Side side="first" sample={first} rank={row?.firstRank} advantage={row?.firstAdvantage} />
        <div className="border-l">
          <Side
            side="second"
            sample={second}
            rank={row?.secondRank}
            advantage={row?.secondAdvantage}
          />
        </div>
      </div>
      {keys.length > 0 && (
        <PanelPart title="Reward extra info" note="first and second batch">
          <div className="grid grid-cols-[minmax(80px,auto)_minmax(0,1fr)_minmax(0,1fr)] gap-x-4 gap-y-1">
            {keys.map((key) => (
              <div key={key} className="contents">
                <span className="font-mono text-xs leading-5 break-all text-ink-3">{key}</span>
                <Said value={first.rewardExtraInfo[key]} />
                <Said value={second.rewardExtraInfo[key]} />
              </div>
            ))}
          </div>
        </PanelPart>
      )}
      <PanelPart title="Prompt" actions={<TextViewSwitch />}>
        <PromptText prompt={first.prompt} />
      </PanelPart>
      <PanelPart
        title={isSameResponse ? 'Response' : 'Response, first batch'}
        note={
          first.responseLength === null
            ? `${formatCount(first.response.length)} characters`
            : `${formatCount(first.responseLength)} tokens`
        }
      >
        <ResponseText
          text={first.response}
          extracted={isSameResponse ? null : first.extracted}
          extra={first.rewardExtraInfo}
        />
      </PanelPart>
      {!isSameResponse && (
        <PanelPart title="Response, second batch">
          <ResponseText
            text={second.response}
            extracted={second.extracted}
            extra={second.rewardExtraInfo}
          />
        </PanelPart>
      )}
      <GroundTruthPart sample={first} />
    </div>
  )
}

function Said({ value }: { value: unknown }) {
  return (
    <div className="min-w-0">
      {value === undefined ? <span className="text-ink-3">–</span> : <JsonValue value={value} />}
    </div>
  )
}

function Side({
  side,
  sample,
  rank,
  advantage,
}: {
  side: 'first' | 'second'
  sample: ReadSample
  rank: number | undefined
  advantage: number | null | undefined
}) {
  return (
    <div className="min-w-0 px-5 py-4">
      <p className="flex items-center gap-1.5 text-xs text-ink-3">
        <span
          className="size-2 shrink-0 rounded-[2px]"
          style={{ background: SIDE_COLOR[side] }}
          aria-hidden
        />
        <span className="truncate" title={sample.rewardName}>
          {sample.rewardName}
        </span>
      </p>
      <p className="num mt-0.5 text-xl font-medium tracking-tight">{formatScore(sample.score)}</p>
      <p className="num text-xs text-ink-3">
        {advantage !== undefined && <>Advantage {formatSigned(advantage)}</>}
        {rank !== undefined && <>, percentile {formatPercent(rank).value}</>}
        {sample.rawScore !== null && sample.rawScore !== sample.score && (
          <>, raw {formatScore(sample.rawScore)}</>
        )}
      </p>
      {sample.reason !== null && (
        <p className="mt-1 text-xs text-bad">{SAMPLE_FAILURE_TEXT[sample.reason]}</p>
      )}
      <PageLink
        href={`/samples?batch=${sample.batchId}&sample=${sample.id}`}
        className="mt-1.5 inline-block font-mono text-xs text-accent hover:underline"
      >
        {sample.id}
      </PageLink>
    </div>
  )
}
