import { isAsleep } from '../router/server-admission.ts'
import type { ServerRow } from '../store/sql/servers.ts'
import { type ModelsContext, scoringServer } from './context.ts'
import { maskSecrets } from './secrets.ts'
import type { SleepCycle } from './sleep-cycle.ts'

/** The cause of a draining that ends in sleep; what a person drains has another, and nobody else ends that. */
export const BEFORE_SLEEP = 'finishes its requests in flight before sleep'
/** Set before the call to sleep goes out: from here on it may be asleep, whatever became of us. */
export const GOING_TO_SLEEP = 'is being put to sleep'

/** Whether a draining server is on its way to sleep, rather than drained by a person. */
export function isDrainingToSleep(row: ServerRow): boolean {
  return (
    row.state === 'draining' &&
    (row.state_cause === BEFORE_SLEEP || row.state_cause === GOING_TO_SLEEP)
  )
}

/**
 * Ends what a process that died left half done: a server on its way to sleep, or awake again. Nothing where another
 * process is at it.
 */
export async function mendInterrupted(
  context: ModelsContext,
  cycle: SleepCycle,
  row: ServerRow,
): Promise<void> {
  await context.locks.under(row.id, async () => {
    const now = await context.registry.byNumber(row.id)
    if (now?.state === 'waking') await mendWaking(context, cycle, now)
    else if (now && isDrainingToSleep(now)) await mendDraining(context, now)
  })
}

async function mendWaking(
  context: ModelsContext,
  cycle: SleepCycle,
  row: ServerRow,
): Promise<void> {
  let asleep: boolean | null
  try {
    asleep = await isAsleep(scoringServer(row), context.timings.probeTimeoutMs)
  } catch {
    asleep = null
  }
  if (asleep === true) {
    await context.registry.transition(row.id, {
      to: 'sleeping',
      from: ['waking'],
      cause: 'waking was interrupted before the request was sent',
      // It may have been told and be on its way: found awake, it is to be put to sleep again when that time is over.
      awakeForMs: Math.max(1, row.awake_left_ms ?? 1),
    })
    return
  }
  // One that does not tell is told again; one that is awake refuses, and its scores show that it is.
  await cycle.finishWaking(row, Math.max(1, row.awake_left_ms ?? 1), asleep === null)
}

async function mendDraining(context: ModelsContext, row: ServerRow): Promise<void> {
  let asleep: boolean | null
  try {
    asleep = await isAsleep(scoringServer(row), context.timings.probeTimeoutMs)
  } catch (error) {
    await context.registry.transition(row.id, {
      to: 'unreachable',
      from: ['draining'],
      cause: maskSecrets((error as Error).message, [row.api_key]),
    })
    return
  }
  const sleeps = asleep ?? row.state_cause === GOING_TO_SLEEP
  await context.registry.transition(row.id, {
    // What it was before is not known any more; the next look finds out.
    to: sleeps ? 'sleeping' : 'probing',
    from: ['draining'],
    cause: sleeps ? 'was put to sleep' : 'stays awake: draining was interrupted; probing again',
    evidence: { told: asleep },
    ...(sleeps ? { awakeForMs: null } : {}),
  })
}
