import { setTimeout as pause } from 'node:timers/promises'
import type { ServerState } from '../contract/servers.ts'
import { RewardOpsError } from '../errors.ts'
import { maskSecrets } from '../mask-secrets.ts'
import {
  abilitiesOf,
  isAsleep,
  isUnanswered,
  probeServer,
  readLoad,
  type SleepLevel,
  sendSleep,
  sendWake,
} from '../router/server-admission.ts'
import { lastSleepLevel } from '../store/sql/server-detail.ts'
import { leasedSlots, noteDrainingCause, type ServerRow } from '../store/sql/servers.ts'
import { knownRoute, probeOfRow } from './admission.ts'
import type { ModelsContext } from './context.ts'
import type { ScoreTrust } from './score-trust.ts'
import { cannotSleep, notNow } from './sleep-refusals.ts'

/** Cause of a drain that a user requested. Only a user ends it. */
export const DRAIN_REQUESTED = 'drain requested'
export const BEFORE_SLEEP = 'finishes its requests in flight before sleep'
/** The cause set before the sleep call is sent. If this process dies after that, the server may be asleep. */
export const GOING_TO_SLEEP = 'is being put to sleep'

export function isDrainingToSleep(row: ServerRow): boolean {
  return (
    row.state === 'draining' &&
    (row.stateCause === BEFORE_SLEEP || row.stateCause === GOING_TO_SLEEP)
  )
}

/** Interval at which to check whether another process has finished changing a server, ms. */
const OTHERS_LOOK_MS = 250

interface SleepRun {
  /**
   * Why the sleep was cancelled, or null if it was not. The server stays awake unless the sleep call was already sent.
   */
  cancelled: string | null
  done: Promise<ServerRow>
}

/**
 * Puts servers to sleep and wakes them.
 *
 *     ready ─▶ draining ──no lease, no load──▶ (sleep call) ──reports sleep──▶ sleeping
 *                 └── not idle within a minute, or cancelled ──▶ ready
 *     sleeping ─▶ waking ──(wake call) responds awake──▶ probing ──self-test──▶ ready | quarantined
 *
 * The sleep call is sent only when nothing is in flight, because the call may abort running requests or crash the
 * server. A server has one change at a time over all processes.
 */
export class SleepCycle {
  readonly #o: ModelsContext
  readonly #trust: ScoreTrust
  readonly #sleeps = new Map<number, SleepRun>()
  readonly #wakes = new Map<number, Promise<ServerRow>>()

  constructor(context: ModelsContext, trust: ScoreTrust) {
    this.#o = context
    this.#trust = trust
  }

  /**
   * Puts a server to sleep once nothing is in flight. On an error the server returns to its previous state, or is
   * unreachable if it no longer responds.
   * @throws RewardOpsError `server_cannot_sleep` if it does not support sleep, `server_busy` if it is not idle in
   * time, `server_unreachable`
   */
  async sleep(row: ServerRow, level: SleepLevel, why: string): Promise<ServerRow> {
    const known = this.#sleeps.get(row.id)
    if (known) return known.done
    if (abilitiesOf(row.engine).lifecycle === null || !row.canSleep) throw cannotSleep(row)
    if (row.state === 'sleeping') return this.#alreadyAsleep(row, level)
    if (row.state !== 'ready' && row.state !== 'quarantined' && row.state !== 'draining') {
      throw notNow(row, 'put to sleep')
    }
    const run: SleepRun = { cancelled: null, done: Promise.resolve(row) }
    run.done = this.#sleep(row, level, why, run).finally(() => this.#sleeps.delete(row.id))
    this.#sleeps.set(row.id, run)
    return run.done
  }

  /** Handles a sleep request for a sleeping server. vLLM would answer a second sleep call with 200 and do nothing. */
  async #alreadyAsleep(row: ServerRow, level: SleepLevel): Promise<ServerRow> {
    if (level === 1 || !abilitiesOf(row.engine).lifecycle?.hasLevels) return row
    const at = await lastSleepLevel(this.#o.db, row.id)
    if (at === 2) return row
    throw new RewardOpsError(
      'server_busy',
      `${row.name} is already asleep at ${at === null ? 'an unknown level' : `level ${at}`}, and a sleeping server cannot go to level 2.`,
      { hint: 'Wake it, then put it to sleep at level 2.' },
    )
  }

  /** Cancels a sleep in progress. Resolves when the server is awake or asleep. */
  async cancelSleep(id: number, why: string): Promise<void> {
    const run = this.#sleeps.get(id)
    if (!run) return
    run.cancelled ??= why
    await run.done.catch(() => {})
  }

  /**
   * Cancels sleeps that wait for a drain. Sleeps whose call was already sent are completed at the next start of the
   * service.
   */
  stop(): void {
    for (const run of this.#sleeps.values()) run.cancelled ??= 'the service is stopping'
  }

  /**
   * Wakes a server, or keeps a woken one awake, for at least `forMs`. Resolves when it is ready or quarantined.
   * @throws RewardOpsError `server_unreachable`, `server_busy`
   */
  async wake(ref: { id: number }, forMs: number, why: string): Promise<ServerRow> {
    const { registry, timings } = this.#o
    const until = performance.now() + timings.awakeWithinMs + timings.asleepWithinMs
    for (;;) {
      const row = await this.#row(ref.id)
      const waking = this.#wakes.get(row.id)
      if (waking) {
        const { state } = await waking
        // If the wake had to wait for a change by another process, the server may still be asleep.
        if (state !== 'ready' && state !== 'quarantined') continue
        await registry.prolong([row.id], forMs)
        return this.#row(row.id)
      }
      if (this.#sleeps.has(row.id)) {
        await this.cancelSleep(row.id, why)
        continue
      }
      if (row.state === 'ready' || row.state === 'quarantined') {
        if (row.awakeUntil !== null) await registry.prolong([row.id], forMs)
        return this.#row(row.id)
      }
      if (row.state === 'sleeping') {
        const run = this.#wake(row, forMs, why).finally(() => this.#wakes.delete(row.id))
        this.#wakes.set(row.id, run)
        const woken = await run
        if (woken.state === 'ready' || woken.state === 'quarantined') return woken
        if (performance.now() > until) throw notNow(woken, 'woken')
        continue
      }
      const passes = row.state === 'waking' || row.state === 'probing' || isDrainingToSleep(row)
      if (!passes || performance.now() > until) throw notNow(row, 'woken')
      await pause(OTHERS_LOOK_MS)
    }
  }

  async #sleep(row: ServerRow, level: SleepLevel, why: string, run: SleepRun): Promise<ServerRow> {
    const { locks, registry } = this.#o
    // Waits for a self-test in progress.
    if (!(await locks.takeWithin(row.id, this.#o.timings.selfTestTimeoutMs))) {
      throw notNow(row, 'put to sleep')
    }
    try {
      const before =
        (await registry.transition(row.id, {
          to: 'draining',
          from: ['ready', 'quarantined'],
          cause: BEFORE_SLEEP,
          evidence: { why, level },
        })) ?? row.state
      if ((await this.#row(row.id)).state !== 'draining') throw notNow(row, 'put to sleep')
      const begun = performance.now()
      const busy = await this.#untilIdle(row, run)
      if (busy !== null) return await this.#staysAwake(row, before, busy, 'server_busy')
      const drainMs = Math.round(performance.now() - begun)
      if (!(await this.#announce(row.id))) throw notNow(await this.#row(row.id), 'put to sleep')
      return await this.#callToSleep(row, level, before, drainMs)
    } finally {
      await locks.release(row.id)
    }
  }

  /** Waits until nothing is in flight. Returns null when the server is idle, otherwise the reason why it is not. */
  async #untilIdle(row: ServerRow, run: SleepRun): Promise<string | null> {
    const { db, timings } = this.#o
    const until = performance.now() + timings.drainWithinMs
    for (;;) {
      if (run.cancelled !== null) return run.cancelled
      const slots = await leasedSlots(db, row.id)
      let busy = `${slots} ${slots === 1 ? 'request' : 'requests'} in flight`
      if (slots === 0) {
        const load = await readLoad(row, timings.probeTimeoutMs)
        // If the server reports no load, only the leases count. A reported load includes requests of other clients.
        if (load === null || load.running + load.waiting === 0) return null
        busy = `the server reports ${load.running} running and ${load.waiting} waiting`
      }
      if (performance.now() > until) {
        return `${busy} after ${Math.round(timings.drainWithinMs / 1_000)} s`
      }
      await pause(timings.drainLookMs)
    }
  }

  /** Stores {@link GOING_TO_SLEEP} as the cause. Returns false if the server is no longer draining. */
  async #announce(id: number): Promise<boolean> {
    return noteDrainingCause(this.#o.db, id, GOING_TO_SLEEP)
  }

  async #callToSleep(
    row: ServerRow,
    level: SleepLevel,
    before: ServerState,
    drainMs: number,
  ): Promise<ServerRow> {
    const { registry, timings } = this.#o
    const begun = performance.now()
    let refused: string | null = null
    try {
      await sendSleep(row, level, timings.asleepWithinMs)
    } catch (error) {
      refused = maskSecrets((error as Error).message, [row.apiKey])
    }
    const until = begun + timings.asleepWithinMs
    for (;;) {
      let asleep: boolean | null = false
      let gone: string | null = null
      try {
        asleep = await isAsleep(row, timings.probeTimeoutMs)
      } catch (error) {
        gone = maskSecrets((error as Error).message, [row.apiKey])
      }
      if (asleep === true || (asleep === null && refused === null)) {
        const sleepMs = Math.round(performance.now() - begun)
        await registry.transition(row.id, {
          to: 'sleeping',
          from: ['draining'],
          cause: `put to sleep (level ${level})`,
          evidence: { level, drainMs, sleepMs, reportedAsleep: asleep === true },
          awakeForMs: null,
        })
        return this.#row(row.id)
      }
      if (refused !== null && gone === null) {
        return this.#staysAwake(row, before, refused, 'server_cannot_sleep')
      }
      if (performance.now() > until) {
        const why =
          gone ??
          'sleep is not supported by this server: /sleep answered 200, and /is_sleeping says that it is awake'
        if (gone === null) return this.#staysAwake(row, before, why, 'server_cannot_sleep')
        await registry.transition(row.id, { to: 'unreachable', from: ['draining'], cause: gone })
        throw new RewardOpsError('server_unreachable', `${row.name}: ${gone}`)
      }
      await pause(timings.asleepLookMs)
    }
  }

  async #staysAwake(
    row: ServerRow,
    before: ServerState,
    why: string,
    reason: 'server_busy' | 'server_cannot_sleep',
  ): Promise<never> {
    // A drain that a user requested gets its cause back, so that it is not taken for an interrupted sleep.
    if (before === 'draining') {
      await noteDrainingCause(this.#o.db, row.id, row.stateCause ?? DRAIN_REQUESTED)
    } else {
      await this.#o.registry.transition(row.id, {
        to: before,
        from: ['draining'],
        cause: `stays awake: ${why}`,
        evidence: { why },
      })
    }
    throw new RewardOpsError(reason, `${row.name} was not put to sleep: ${why}.`)
  }

  async #wake(row: ServerRow, forMs: number, why: string): Promise<ServerRow> {
    const { locks, registry } = this.#o
    // Another process is changing the server. The caller checks the state again after a pause.
    if (!(await locks.take(row.id))) {
      await pause(OTHERS_LOOK_MS)
      return this.#row(row.id)
    }
    try {
      // Stored before the wake call, so that every process knows how long the server stays awake.
      const taken = await registry.transition(row.id, {
        to: 'waking',
        from: ['sleeping'],
        cause: `is being woken: ${why}`,
        awakeForMs: forMs,
      })
      if (taken === null) return await this.#row(row.id)
      return await this.finishWaking(row, forMs, true)
    } finally {
      await locks.release(row.id)
    }
  }

  /**
   * Brings a server from `waking` to `ready`. Sends the wake call first if `call` is true. The caller must hold the
   * server's lock.
   * @throws RewardOpsError `server_unreachable`; the server is then sleeping or unreachable
   */
  async finishWaking(row: ServerRow, forMs: number, call: boolean): Promise<ServerRow> {
    const { registry, timings } = this.#o
    const begun = performance.now()
    let refused: string | null = null
    if (call) {
      try {
        await sendWake(row, timings.awakeWithinMs)
      } catch (error) {
        refused = maskSecrets((error as Error).message, [row.apiKey])
        if (isUnanswered(error)) return this.#notWoken(row, 'unreachable', refused)
      }
    }
    const until = begun + timings.awakeWithinMs
    for (;;) {
      const probe = await probeServer({
        timeoutMs: timings.probeTimeoutMs,
        ...probeOfRow(row),
        known: knownRoute(row, true),
      })
      // A server that refused the call and does not report sleep may already have been awake. The self-test shows
      // whether it works.
      if (probe.ok && !probe.sleeping) break
      if (refused !== null && probe.ok) return this.#notWoken(row, 'sleeping', refused)
      if (performance.now() > until) {
        return probe.ok
          ? this.#notWoken(row, 'sleeping', 'still asleep')
          : this.#notWoken(row, 'unreachable', maskSecrets(probe.message, [row.apiKey]))
      }
      await pause(timings.awakeLookMs)
    }
    const wakeMs = Math.round(performance.now() - begun)
    await registry.transition(row.id, {
      to: 'probing',
      from: ['waking'],
      cause: 'awake, running the self-test',
      evidence: { wakeMs, ...(refused === null ? {} : { refused }) },
    })
    const examination = await this.#trust.examine(await this.#row(row.id))
    await this.#trust.keep(row.id, examination)
    await registry.prolong([row.id], forMs)
    await registry.transition(row.id, {
      to: examination.to,
      from: ['probing'],
      cause: `woken, ${examination.cause}`,
      evidence: { wakeMs, ...examination.evidence },
    })
    await this.#trust.settle(row.id, examination)
    return this.#row(row.id)
  }

  async #notWoken(row: ServerRow, to: 'sleeping' | 'unreachable', why: string): Promise<never> {
    await this.#o.registry.transition(row.id, {
      to,
      from: ['waking'],
      cause: `was not woken: ${why}`,
      evidence: { why },
      ...(to === 'sleeping' ? { awakeForMs: null } : {}),
    })
    throw new RewardOpsError('server_unreachable', `${row.name} was not woken: ${why}.`, {
      hint: 'See the log of the server; servers.probe probes it again.',
    })
  }

  async #row(id: number): Promise<ServerRow> {
    const row = await this.#o.registry.byNumber(id)
    if (!row) throw new RewardOpsError('server_not_found', `Server s${id} no longer exists.`)
    return row
  }
}
