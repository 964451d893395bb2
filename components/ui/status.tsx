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

const BATCH: Record<BatchStatus, Look> = {
  open: { icon: FolderOpen, text: 'open', tone: 'run' },
  running: { icon: CircleDot, text: 'running', tone: 'run' },
  completed: { icon: CircleCheck, text: 'completed', tone: 'ok' },
  cancelled: { icon: Ban, text: 'cancelled', tone: 'idle' },
  failed: { icon: OctagonX, text: 'failed', tone: 'bad' },
}

const SAMPLE: Record<SampleStatus, Look> = {
  queued: { icon: CircleDashed, text: 'queued', tone: 'idle' },
  running: { icon: CircleDot, text: 'running', tone: 'run' },
  scored: { icon: CircleCheck, text: 'scored', tone: 'ok' },
  failed: { icon: CircleX, text: 'failed', tone: 'bad' },
}

const SERVER: Record<ServerState, Look> = {
  registering: { icon: Plug, text: 'starting', tone: 'run' },
  probing: { icon: ScanSearch, text: 'testing', tone: 'run' },
  ready: { icon: CircleCheck, text: 'ready', tone: 'ok' },
  unreachable: { icon: Unplug, text: 'unreachable', tone: 'bad' },
  quarantined: { icon: ShieldAlert, text: 'quarantined', tone: 'bad' },
  draining: { icon: Hourglass, text: 'draining', tone: 'warn' },
  sleeping: { icon: MoonStar, text: 'asleep', tone: 'idle' },
  waking: { icon: Sunrise, text: 'waking', tone: 'run' },
  dead: { icon: Skull, text: 'dead', tone: 'bad' },
}

const DRAINED: Look = { icon: CirclePause, text: 'drained', tone: 'idle' }

/** The health of a server as one process sees it. */
type PassiveHealth = NonNullable<WorkerServerStats['health']>

const HEALTH: Record<PassiveHealth, Look> = {
  ok: { icon: CircleCheck, text: 'ok', tone: 'ok' },
  suspect: { icon: CircleHelp, text: 'suspect', tone: 'warn' },
  ejected: { icon: CircleOff, text: 'ejected', tone: 'bad' },
  half_open: { icon: CircleDot, text: 'half-open', tone: 'warn' },
  slow_start: { icon: CircleFadingArrowUp, text: 'slow start', tone: 'run' },
}

const HEALTH_MEANING: Record<PassiveHealth, string> = {
  ok: 'The server gets its share of the requests.',
  suspect:
    'Its requests get no responses. New requests are sent only once a pending one gets a response.',
  ejected: 'No requests are sent, because its responses had too many errors.',
  half_open: 'One request at a time is sent after an ejection.',
  slow_start: 'The server’s share of the requests rises to its usual level.',
}

const VERDICT: Record<SelfTestVerdict, Look> = {
  raw: { icon: CircleCheck, text: 'raw', tone: 'ok' },
  constant: { icon: ShieldAlert, text: 'constant', tone: 'bad' },
  label_unknown: { icon: ShieldAlert, text: 'label unknown', tone: 'bad' },
  squashed: { icon: ShieldAlert, text: 'squashed', tone: 'bad' },
  inverted: { icon: ShieldAlert, text: 'inverted', tone: 'bad' },
  truncated: { icon: ShieldAlert, text: 'truncated', tone: 'bad' },
  differs: { icon: ShieldAlert, text: 'differs', tone: 'bad' },
  unverified: { icon: CircleHelp, text: 'unverified', tone: 'warn' },
  not_applicable: { icon: CircleDashed, text: 'not applicable', tone: 'idle' },
  failed: { icon: CircleX, text: 'failed', tone: 'bad' },
}

const WORKER: Record<WorkerDto['state'], Look> = {
  alive: { icon: CircleCheck, text: 'alive', tone: 'ok' },
  stopping: { icon: Hourglass, text: 'stopping', tone: 'warn' },
  dead: { icon: Skull, text: 'dead', tone: 'bad' },
}

const RUN: Record<RunStatus, Look> = {
  scoring: { icon: CircleDot, text: 'scoring', tone: 'run' },
  stalled: { icon: CircleAlert, text: 'stalled', tone: 'warn' },
  idle: { icon: CircleDashed, text: 'idle', tone: 'idle' },
}

const PROMPT: Record<PromptClass, Look> = {
  regressed: { icon: TrendingDown, text: 'regressed', tone: 'bad' },
  flapping: { icon: Activity, text: 'flapping', tone: 'warn' },
  learning: { icon: TrendingUp, text: 'learning', tone: 'run' },
  mixed: { icon: Contrast, text: 'mixed', tone: 'idle' },
  unsolved: { icon: Circle, text: 'unsolved', tone: 'idle' },
  solved: { icon: CircleCheck, text: 'solved', tone: 'ok' },
  never_varied: { icon: Equal, text: 'never varied', tone: 'idle' },
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
  return <Status look={BATCH[status]} />
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
  const look = RUN[status]
  return <Status look={age ? { ...look, text: `${look.text} ${age}` } : look} title={title} />
}
export function SampleStatusView({ status }: { status: SampleStatus }) {
  return <Status look={SAMPLE[status]} />
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
  return <Status look={VERDICT[verdict]} title={detail} />
}

export function PromptClassView({ name }: { name: PromptClass }) {
  return <Status look={PROMPT[name]} title={PROMPT_CLASS_TEXT[name]} />
}

export function stateLook(state: string): { text: string; tone: Tone } {
  const look = (SERVER as Record<string, Look>)[state] ?? (HEALTH as Record<string, Look>)[state]
  return look ? { text: look.text, tone: look.tone } : { text: state, tone: 'idle' }
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
        look={{ ...look, text: 'alive, no functions', tone: 'warn' }}
        title={`Cannot run custom reward functions: ${functionProblem}`}
      />
    )
  }
  return <Status look={state === 'dead' && requeued === 0 ? { ...look, tone: 'idle' } : look} />
}
