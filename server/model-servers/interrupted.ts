import { maskSecrets } from '../mask-secrets.ts'
import { isAsleep } from '../router/server-admission.ts'
import type { ServerRow } from '../store/sql/servers.ts'
import type { ModelsContext } from './context.ts'
import { GOING_TO_SLEEP, isDrainingToSleep, type SleepCycle } from './sleep-cycle.ts'

/**
 * Completes a sleep or a wake that a dead process left unfinished. Does nothing while another process changes the
 * server.
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
    asleep = await isAsleep(row, context.timings.probeTimeoutMs)
  } catch {
    asleep = null
  }
  if (asleep === true) {
    await context.registry.transition(row.id, {
      to: 'sleeping',
      from: ['waking'],
      cause: 'waking was interrupted',
      // The wake call may have been sent. If the server wakes later, it is put to sleep again after this time.
      awakeForMs: Math.max(1, row.awakeLeftMs ?? 1),
    })
    return
  }
  // A server that does not report its state gets the wake call again. If it is awake, it refuses the call, and the
  // self-test decides whether it can be used.
  await cycle.finishWaking(row, Math.max(1, row.awakeLeftMs ?? 1), asleep === null)
}

async function mendDraining(context: ModelsContext, row: ServerRow): Promise<void> {
  let asleep: boolean | null
  try {
    asleep = await isAsleep(row, context.timings.probeTimeoutMs)
  } catch (error) {
    await context.registry.transition(row.id, {
      to: 'unreachable',
      from: ['draining'],
      cause: maskSecrets((error as Error).message, [row.apiKey]),
    })
    return
  }
  const sleeps = asleep ?? row.stateCause === GOING_TO_SLEEP
  await context.registry.transition(row.id, {
    // The previous state is not stored; the next probe determines the state.
    to: sleeps ? 'sleeping' : 'probing',
    from: ['draining'],
    cause: sleeps ? 'was put to sleep' : 'stays awake: draining was interrupted; probing again',
    evidence: { reportedAsleep: asleep },
    ...(sleeps ? { awakeForMs: null } : {}),
  })
}
