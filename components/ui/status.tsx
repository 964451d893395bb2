import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CircleX,
  FolderOpen,
  Hourglass,
  type LucideIcon,
  OctagonX,
  Skull,
  Unplug,
} from 'lucide-react'
import type { WorkerDto } from '../../server/wire/pages.ts'
import type { ServerState } from '../../server/wire/servers.ts'
import type { BatchStatus, SampleStatus } from '../../server/wire/trainer.ts'

type Tone = 'ok' | 'run' | 'warn' | 'bad' | 'idle'

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
  ready: { icon: CircleCheck, text: 'ready', tone: 'ok' },
  unreachable: { icon: Unplug, text: 'unreachable', tone: 'bad' },
  draining: { icon: Hourglass, text: 'draining', tone: 'warn' },
}

const WORKER: Record<WorkerDto['state'], Look> = {
  alive: { icon: CircleCheck, text: 'alive', tone: 'ok' },
  stopping: { icon: Hourglass, text: 'stopping', tone: 'warn' },
  dead: { icon: Skull, text: 'dead', tone: 'bad' },
}

/** A state as icon, word and colour: never colour alone. */
function Status({ look, title }: { look: Look | undefined; title?: string }) {
  if (look === undefined) return null
  const Icon = look.icon
  return (
    <span
      className={`inline-flex items-center gap-1.5 align-middle whitespace-nowrap ${TONES[look.tone]}`}
      title={title}
    >
      <Icon size={14} strokeWidth={2} aria-hidden />
      <span>{look.text}</span>
    </span>
  )
}

export function BatchStatusView({ status }: { status: BatchStatus }) {
  return <Status look={BATCH[status]} />
}
export function SampleStatusView({ status }: { status: SampleStatus }) {
  return <Status look={SAMPLE[status]} />
}
export function ServerStateView({ state, cause }: { state: ServerState; cause?: string | null }) {
  return <Status look={SERVER[state]} title={cause ?? undefined} />
}
/** A worker that is gone is a fault only where it held samples; one that was stopped held none. */
export function WorkerStateView({ state, requeued }: Pick<WorkerDto, 'state' | 'requeued'>) {
  const look = WORKER[state]
  return <Status look={state === 'dead' && requeued === 0 ? { ...look, tone: 'idle' } : look} />
}
