'use client'

import { Columns2 } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { type ReactNode, useMemo, useState } from 'react'
import { GROUP_SIGNAL_TEXT } from '../../server/contract/group-signal.ts'
import {
  DETAIL_FIELDS,
  fieldOf,
  type SampleFieldName,
} from '../../server/contract/sample-fields.ts'
import { SAMPLE_FAILURE_TEXT } from '../../server/contract/sample-reason.ts'
import type { PartRewards } from '../../server/contract/trainer.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { dateTime } from '../format/time.ts'
import { promptHref } from '../prompts/prompts-url.ts'
import { MarkedText } from '../rollouts/marked-text.tsx'
import {
  rewardedParts,
  spanMarks,
  tokenMarks,
  tokensByComponent,
} from '../rollouts/part-rewards.ts'
import { Messages, PromptText, TurnScore } from '../rollouts/prompt-text.tsx'
import { JsonValue } from '../rollouts/raw-text.tsx'
import { ResponseText, TextViewSwitch } from '../rollouts/response-text.tsx'
import { ServerName } from '../servers/server-cells.tsx'
import { useKeys } from '../shell/keys.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button } from '../ui/button.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { PanelPart } from '../ui/docked-panel.tsx'
import { WorkerName } from '../workers/worker-name.tsx'
import { AnnotationsPart } from './annotations-part.tsx'
import { AttemptWaterfall } from './attempt-waterfall.tsx'
import { ScoreCell } from './sample-columns.tsx'
import { GroundTruthPart, type ReadSample } from './sample-texts.tsx'
import { Siblings } from './siblings.tsx'
import { counterpartOf, sideBySideHref } from './side-by-side/side-by-side-url.ts'
import { TokenLegend, TokenTable } from './token-scores.tsx'

const SHOWN_PARTS = 20

function Texts({ sample }: { sample: ReadSample }) {
  const { rewards, response, messages } = sample
  const components = useMemo(() => tokensByComponent(rewards), [rewards])
  const [chosen, setChosen] = useState<string | null>(null)
  const component = components.has(chosen) ? chosen : (components.keys().next().value ?? null)
  const tokens = components.get(component) ?? null
  const marks = useMemo(
    () => [...tokenMarks(tokens, 0, response), ...spanMarks(rewards?.spans ?? [], response)],
    [rewards, tokens, response],
  )
  return (
    <>
      <PanelPart
        title="Prompt"
        note={
          sample.promptKey !== null && (
            <PageLink
              href={promptHref(sample.run, sample.split, sample.promptKey)}
              title="This prompt in all steps of its run"
              className="text-accent hover:underline"
            >
              View prompt
            </PageLink>
          )
        }
        actions={<TextViewSwitch />}
      >
        <PromptText prompt={sample.prompt} />
      </PanelPart>
      <PanelPart
        title="Response"
        note={
          sample.responseLength === null
            ? `${formatCount(sample.response.length)} characters`
            : `${formatCount(sample.responseLength)} tokens, ${formatCount(sample.response.length)} characters`
        }
      >
        {tokens !== null && (
          <TokenLegend
            tokens={tokens}
            component={component}
            components={[...components.keys()]}
            onChange={setChosen}
          />
        )}
        {messages === null ? (
          <ResponseText
            text={response}
            extracted={sample.extracted}
            extra={sample.rewardExtraInfo}
            marks={marks}
          />
        ) : (
          <Messages
            messages={messages}
            rewards={rewards}
            tokens={tokens}
            extracted={sample.extracted}
          />
        )}
      </PanelPart>
      {tokens !== null && <TokenTable tokens={tokens} response={messages ?? response} />}
      {rewards !== null && rewards.turns.length + rewards.spans.length > 0 && (
        <RewardedParts sample={sample} rewards={rewards} />
      )}
      <GroundTruthPart sample={sample} />
    </>
  )
}

function RewardedParts({ sample, rewards }: { sample: ReadSample; rewards: PartRewards }) {
  const [all, setAll] = useState(false)
  const parts = useMemo(
    () => rewardedParts(rewards, sample.messages ?? sample.response),
    [rewards, sample.messages, sample.response],
  )
  const shown = all ? parts : parts.slice(0, SHOWN_PARTS)
  return (
    <PanelPart
      title="Turn and span rewards"
      note={`${plural(rewards.turns.length, 'message')}, ${plural(rewards.spans.length, 'span')}`}
    >
      <ul className="num space-y-0.5 text-xs" data-part-rewards={parts.length}>
        {shown.map(({ message, text, score }, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of a response do not move
          <li key={i} className="flex items-baseline gap-3">
            <span className="w-20 shrink-0 text-ink-3">Message {message}</span>
            <span
              className={`min-w-0 flex-1 truncate ${text === null ? 'text-ink-3' : 'font-mono'}`}
            >
              {text === null ? 'Whole message' : <MarkedText text={text} />}
            </span>
            <TurnScore score={score} />
          </li>
        ))}
      </ul>
      {shown.length < parts.length && (
        <Button small variant="quiet" onClick={() => setAll(true)}>
          Show all {formatCount(parts.length)} parts
        </Button>
      )}
    </PanelPart>
  )
}

function TextsRemoved({ at }: { at: string }) {
  return (
    <PanelPart title="Texts">
      <p className="text-ink-2">
        Retention removed the prompt, response, ground truth and extra info on{' '}
        {dateTime(Date.parse(at))}. The score and the attempts are kept.
      </p>
    </PanelPart>
  )
}

export function SampleDetails({
  sample,
  onOpen,
}: {
  sample: ReadSample
  onOpen(id: string): void
}) {
  const extra = Object.entries(sample.rewardExtraInfo)
  const extraInfo = Object.entries(sample.extraInfo)
  return (
    <div data-panel={sample.id}>
      <div className="border-b px-5 py-4">
        <p className="text-xs text-ink-3">
          Scored by {sample.rewardName}
          {sample.rewardVersion !== null && (
            <span className="ml-2 font-mono">{sample.rewardVersion}</span>
          )}
        </p>
        <p className="num mt-0.5 flex items-baseline gap-3">
          <span className="text-xl font-medium tracking-tight">
            <ScoreCell row={sample} />
          </span>
          {sample.rawScore !== null && sample.rawScore !== sample.score && (
            <span className="text-ink-2">Raw {formatScore(sample.rawScore)}</span>
          )}
          {sample.verdict !== null && <span className="text-ink-2">{sample.verdict}</span>}
          {sample.groupSignal !== null && (
            <span
              className="text-ink-2"
              title={`GRPO advantage within the group. ${GROUP_SIGNAL_TEXT[sample.groupSignal]}`}
            >
              {sample.advantage === null
                ? 'No advantage'
                : `Advantage ${formatScore(sample.advantage)}`}
            </span>
          )}
        </p>
        {sample.reason !== null && (
          <p className="mt-3 flex gap-2.5 rounded-md bg-bad-soft px-3 py-2">
            <span className="hatch mt-1 size-3 shrink-0 rounded-[2px]" aria-hidden />
            <span>
              <span className="font-mono text-xs font-medium text-bad">{sample.reason}</span>
              <br />
              {SAMPLE_FAILURE_TEXT[sample.reason]}
            </span>
          </p>
        )}
        {sample.substituted && (
          <p className="mt-2 text-xs text-warn">
            * Substituted by the failure policy of the batch. It is not a score and is excluded from
            all statistics.
          </p>
        )}
        <div className="mt-4">
          <Siblings sample={sample} onOpen={onOpen} actions={<CompareLink sample={sample} />} />
        </div>
      </div>
      <AnnotationsPart sample={sample} />
      {sample.textsRemovedAt === null ? (
        <Texts sample={sample} />
      ) : (
        <TextsRemoved at={sample.textsRemovedAt} />
      )}
      {extra.length > 0 && (
        <PanelPart title="Reward extra info" note="rewardExtraInfo">
          <Pairs pairs={extra} />
        </PanelPart>
      )}
      <PanelPart
        title="Attempts"
        note={sample.attemptLog.length > 1 ? `${sample.attemptLog.length} attempts` : undefined}
      >
        <AttemptWaterfall sample={sample} />
      </PanelPart>
      {extraInfo.length > 0 && (
        <PanelPart title="Extra info" note="from the trainer">
          <Pairs pairs={extraInfo} />
        </PanelPart>
      )}
      <PanelPart title="Details">
        <dl className="grid grid-cols-[110px_minmax(0,1fr)] gap-y-0.5">
          <Line name="Batch">
            <PageLink
              href={`/batches/${sample.batchId}`}
              className="font-mono text-xs text-accent hover:underline"
            >
              {sample.batchId}
            </PageLink>
          </Line>
          <Line name="Run">
            <RunName run={sample.run} />
          </Line>
          <Line name="Step">{formatCount(sample.step)}</Line>
          <Line name="Split">{sample.split === 'val' ? 'Validation' : 'Training'}</Line>
          {sample.rescoredFrom !== null && (
            <Line name="Rescored from">
              <PageLink
                href={`/batches/${sample.rescoredFrom}`}
                className="font-mono text-xs text-accent hover:underline"
              >
                {sample.rescoredFrom}
              </PageLink>
            </Line>
          )}
          <Line name="Group">
            <CopyText text={sample.uid} maxChars={40} className="text-xs" />
          </Line>
          {DETAIL_FIELDS.map((field) => (
            <FieldLine key={field} field={field} value={sample[field]} />
          ))}
          <Line name="Data source">{sample.dataSource}</Line>
          <Line name="Reward position">
            {sample.position === null ? '–' : `Token ${formatCount(sample.position)}`}
          </Line>
          <Line name="Server">
            {sample.serverName === null ? 'None' : <ServerName name={sample.serverName} />}
          </Line>
          <Line name="Worker">
            {sample.workerId === null ? '–' : <WorkerName id={sample.workerId} />}
          </Line>
          <Line name="Submitted">{dateTime(Date.parse(sample.submittedAt))}</Line>
          <Line name="Ended">
            {sample.endedAt === null ? '–' : dateTime(Date.parse(sample.endedAt))}
          </Line>
        </dl>
      </PanelPart>
    </div>
  )
}

function CompareLink({ sample }: { sample: ReadSample }) {
  const router = useRouter()
  const other = counterpartOf(sample.siblings, sample.id)
  const href = other === null ? null : sideBySideHref(sample.id, other)
  useKeys([
    {
      key: 'c',
      label: 'Compare within group',
      group: 'Samples',
      run: () => {
        if (href !== null) router.push(href)
      },
    },
  ])
  if (href === null) return null
  return (
    <PageLink
      href={href}
      title="Compare with the sample of this group whose score differs most (C)"
      className="flex items-center gap-1.5 text-accent hover:underline"
    >
      <Columns2 size={13} aria-hidden />
      Compare
    </PageLink>
  )
}

function FieldLine({ field, value }: { field: SampleFieldName; value: number | string | null }) {
  // The length is shown with the response.
  if (value === null || field === 'responseLength') return null
  const { label, unit = '' } = fieldOf(field)
  return (
    <Line name={label}>
      {typeof value === 'string' ? (
        <CopyText text={value} maxChars={40} className="text-xs" />
      ) : (
        `${formatCount(value)} ${unit}`
      )}
    </Line>
  )
}

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="num min-w-0 truncate">{children}</dd>
    </>
  )
}

function Pairs({ pairs }: { pairs: [string, unknown][] }) {
  return (
    <dl className="grid grid-cols-[minmax(90px,auto)_minmax(0,1fr)] gap-x-5 gap-y-0.5">
      {pairs.map(([key, value]) => (
        <div key={key} className="contents">
          <dt className="font-mono text-xs leading-5 text-ink-3">{key}</dt>
          <dd className="min-w-0">
            <JsonValue value={value} />
          </dd>
        </div>
      ))}
    </dl>
  )
}
