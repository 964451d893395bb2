import {
  Activity,
  Ban,
  Circle,
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CircleFadingArrowUp,
  CircleHelp,
  CircleOff,
  CirclePause,
  CircleX,
  Contrast,
  Equal,
  FolderOpen,
  Hourglass,
  type LucideIcon,
  MoonStar,
  OctagonX,
  Plug,
  ScanSearch,
  ShieldAlert,
  Skull,
  Sunrise,
  TrendingDown,
  TrendingUp,
  Unplug,
} from 'lucide-react'
import type { WorkerDto } from '../../server/contract/pages.ts'
import { PROMPT_CLASS_TEXT, type PromptClass } from '../../server/contract/prompts.ts'
import type { RunStatus } from '../../server/contract/run-table.ts'
import type { SelfTestVerdict } from '../../server/contract/self-test-verdict.ts'
import type { ServerState } from '../../server/contract/servers.ts'
import type { BatchStatus, SampleStatus } from '../../server/contract/trainer.ts'
import type { WorkerServerStats } from '../../server/contract/worker-stats.ts'
import { capitalized } from '../format/text.ts'

export type Tone = 'ok' | 'run' | 'warn' | 'bad' | 'idle'

const TONES: Record<Tone, string> = {
  ok: 'text-ok',
  run: 'text-accent',
  warn: 'text-warn',
  bad: 'text-bad',
  idle: 'text-ink-3',
}

interface Look {
  icon: LucideIcon
  text: string
  tone: Tone
}

export const BATCH_LOOK: Record<BatchStatus, Look> = {
  open: { icon: FolderOpen, text: 'Open', tone: 'run' },
  running: { icon: CircleDot, text: 'Running', tone: 'run' },
  completed: { icon: CircleCheck, text: 'Completed', tone: 'ok' },
  cancelled: { icon: Ban, text: 'Cancelled', tone: 'idle' },
  failed: { icon: OctagonX, text: 'Failed', tone: 'bad' },
}

export const SAMPLE_LOOK: Record<SampleStatus, Look> = {
  queued: { icon: CircleDashed, text: 'Queued', tone: 'idle' },
  running: { icon: CircleDot, text: 'Running', tone: 'run' },
  scored: { icon: CircleCheck, text: 'Scored', tone: 'ok' },
  failed: { icon: CircleX, text: 'Failed', tone: 'bad' },
}

const SERVER: Record<ServerState, Look> = {
  registering: { icon: Plug, text: 'Starting', tone: 'run' },
  probing: { icon: ScanSearch, text: 'Testing', tone: 'run' },
  ready: { icon: CircleCheck, text: 'Ready', tone: 'ok' },
  unreachable: { icon: Unplug, text: 'Unreachable', tone: 'bad' },
  quarantined: { icon: ShieldAlert, text: 'Quarantined', tone: 'bad' },
  draining: { icon: Hourglass, text: 'Draining', tone: 'warn' },
  sleeping: { icon: MoonStar, text: 'Asleep', tone: 'idle' },
  waking: { icon: Sunrise, text: 'Waking', tone: 'run' },
  dead: { icon: Skull, text: 'Dead', tone: 'bad' },
}

const DRAINED: Look = { icon: CirclePause, text: 'Drained', tone: 'idle' }

/** The health of a server as one process sees it. */
type PassiveHealth = NonNullable<WorkerServerStats['health']>

const HEALTH: Record<PassiveHealth, Look> = {
  ok: { icon: CircleCheck, text: 'OK', tone: 'ok' },
  suspect: { icon: CircleHelp, text: 'Suspect', tone: 'warn' },
  ejected: { icon: CircleOff, text: 'Ejected', tone: 'bad' },
  half_open: { icon: CircleDot, text: 'Half-open', tone: 'warn' },
  slow_start: { icon: CircleFadingArrowUp, text: 'Slow start', tone: 'run' },
}

const HEALTH_MEANING: Record<PassiveHealth, string> = {
  ok: 'The server gets its share of the requests.',
  suspect:
    'Its requests get no responses. New requests are sent only once a pending one gets a response.',
  ejected: 'No requests are sent, because its responses had too many errors.',
  half_open: 'One request at a time is sent after an ejection.',
  slow_start: 'The server’s share of the requests rises to its usual level.',
}

export const VERDICT_LOOK: Record<SelfTestVerdict, Look> = {
  raw: { icon: CircleCheck, text: 'Raw', tone: 'ok' },
  constant: { icon: ShieldAlert, text: 'Constant', tone: 'bad' },
  label_unknown: { icon: ShieldAlert, text: 'Label unknown', tone: 'bad' },
  squashed: { icon: ShieldAlert, text: 'Squashed', tone: 'bad' },
  inverted: { icon: ShieldAlert, text: 'Inverted', tone: 'bad' },
  truncated: { icon: ShieldAlert, text: 'Truncated', tone: 'bad' },
  differs: { icon: ShieldAlert, text: 'Differs', tone: 'bad' },
  unverified: { icon: CircleHelp, text: 'Unverified', tone: 'warn' },
  not_applicable: { icon: CircleDashed, text: 'Not applicable', tone: 'idle' },
  failed: { icon: CircleX, text: 'Failed', tone: 'bad' },
}

const WORKER: Record<WorkerDto['state'], Look> = {
  alive: { icon: CircleCheck, text: 'Alive', tone: 'ok' },
  stopping: { icon: Hourglass, text: 'Stopping', tone: 'warn' },
  dead: { icon: Skull, text: 'Dead', tone: 'bad' },
}

export const RUN_LOOK: Record<RunStatus, Look> = {
  scoring: { icon: CircleDot, text: 'Scoring', tone: 'run' },
  stalled: { icon: CircleAlert, text: 'Stalled', tone: 'warn' },
  idle: { icon: CircleDashed, text: 'Idle', tone: 'idle' },
}

const PROMPT: Record<PromptClass, Look> = {
  regressed: { icon: TrendingDown, text: 'Regressed', tone: 'bad' },
  flapping: { icon: Activity, text: 'Flapping', tone: 'warn' },
  learning: { icon: TrendingUp, text: 'Learning', tone: 'run' },
  mixed: { icon: Contrast, text: 'Mixed', tone: 'idle' },
  unsolved: { icon: Circle, text: 'Unsolved', tone: 'idle' },
  solved: { icon: CircleCheck, text: 'Solved', tone: 'ok' },
  never_varied: { icon: Equal, text: 'Never varied', tone: 'idle' },
}

function Status({ look, title }: { look: Look | undefined; title?: string | undefined }) {
  if (look === undefined) return null
  const Icon = look.icon
  return (
    <span
      className={`inline-flex items-center gap-1.5 align-middle whitespace-nowrap ${TONES[look.tone]}`}
      title={title}
    >
      <Icon size={14} strokeWidth={2} aria-hidden />
      <span className="status-word">{look.text}</span>
    </span>
  )
}

export function BatchStatusView({ status }: { status: BatchStatus }) {
  return <Status look={BATCH_LOOK[status]} />
}
/** The status of a run. `age` is the time that the run has had this status, such as `3 h`. */
export function RunStatusView({
  status,
  age,
  title,
}: {
  status: RunStatus
  age?: string
  title: string
}) {
  const look = RUN_LOOK[status]
  return <Status look={age ? { ...look, text: `${look.text} ${age}` } : look} title={title} />
}
export function SampleStatusView({ status }: { status: SampleStatus }) {
  return <Status look={SAMPLE_LOOK[status]} />
}
export function ServerStateView({
  server: { state, stateCause, inFlight },
}: {
  server: { state: ServerState; stateCause?: string | null; inFlight?: number }
}) {
  const look = state === 'draining' && inFlight === 0 ? DRAINED : SERVER[state]
  return <Status look={look} title={stateCause ?? undefined} />
}
export function HealthView({ health }: { health: PassiveHealth }) {
  return <Status look={HEALTH[health]} title={HEALTH_MEANING[health]} />
}
export function VerdictView({ verdict, detail }: { verdict: SelfTestVerdict; detail?: string }) {
  return <Status look={VERDICT_LOOK[verdict]} title={detail} />
}

export function PromptClassView({ name }: { name: PromptClass }) {
  return <Status look={PROMPT[name]} title={PROMPT_CLASS_TEXT[name]} />
}

export function stateLook(state: string): { text: string; tone: Tone } {
  const look = (SERVER as Record<string, Look>)[state] ?? (HEALTH as Record<string, Look>)[state]
  return look ? { text: look.text, tone: look.tone } : { text: capitalized(state), tone: 'idle' }
}

/**
 * The state of a worker. An exited worker is red only if its samples had to be requeued; a worker that is stopped
 * returns its samples before it exits.
 */
export function WorkerStateView({
  state,
  requeued,
  functionProblem,
}: Pick<WorkerDto, 'state' | 'requeued' | 'functionProblem'>) {
  const look = WORKER[state]
  if (state === 'alive' && functionProblem !== null) {
    return (
      <Status
        look={{ ...look, text: 'Alive, no functions', tone: 'warn' }}
        title={`Cannot run custom reward functions: ${functionProblem}`}
      />
    )
  }
  return <Status look={state === 'dead' && requeued === 0 ? { ...look, tone: 'idle' } : look} />
}
