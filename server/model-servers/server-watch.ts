import { maskSecrets } from '../mask-secrets.ts'
import {
  isAsleep,
  type ProbedServer,
  type ProbeFailure,
  probeServer,
} from '../router/server-admission.ts'
import { isOutage } from '../store/database.ts'
import { poolOfModel } from '../store/job-queue.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import type { ServerRow } from '../store/sql/servers.ts'
import { factsOf, failureEvidence, knownRoute, probeOfRow } from './admission.ts'
import type { ModelsContext } from './context.ts'
import { mendInterrupted } from './interrupted.ts'
import type { ScoreTrust } from './score-trust.ts'
import { isDrainingToSleep, type SleepCycle } from './sleep-cycle.ts'

const FAILURES_TO_UNREACHABLE = 2
/** Maximum number of concurrent probes. Each needs one connection and a few calls. */
const MAX_AT_ONCE = 32

/**
 * Watches the registered servers: probes them, checks their scores and completes changes that a dead process left
 * unfinished. The states are described in server/contract/servers.ts.
 */
export class ServerWatch {
  readonly #o: ModelsContext
  readonly #trust: ScoreTrust
  readonly #cycle: SleepCycle
  readonly #failures = new Map<number, number>()
  readonly #nextProbe = new Map<number, number>()
  readonly #nextTest = new Map<number, number>()
  /** Requests and successful requests of each server at its last check, and the times of their last increase. */
  readonly #traffic = new Map<
    number,
    { requests: number; good: number; usedAt: number; goodAt: number }
  >()
  readonly #reportsSleep = new Set<number>()
  readonly #probing = new Set<number>()
  /** Calibrations in flight, by server. They hold the server's lock, but probes go on. */
  readonly #calibrations = new Map<number, { stop: AbortController; ended: Promise<void> }>()
  readonly #task: PeriodicTask

  constructor(context: ModelsContext, trust: ScoreTrust, cycle: SleepCycle) {
    this.#o = context
    this.#trust = trust
    this.#cycle = cycle
    this.#task = new PeriodicTask({
      everyMs: context.timings.lookEveryMs,
      atStart: true,
      failed: 'probing failed',
      log: context.log,
      isTurn: context.isTurn && (() => context.isTurn!('probes')),
      work: () => this.#look(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
    await Promise.all([...this.#calibrations.keys()].map((id) => this.#stopCalibration(id)))
  }

  /** Resets a server's failures and postpones its probe and self-test, because it was just registered. */
  forget(id: number): void {
    this.#failures.delete(id)
    this.#nextProbe.set(id, performance.now() + this.#o.timings.probeEveryMs)
    this.#nextTest.set(id, performance.now() + this.#o.timings.calibrateEveryMs)
  }

  isBusy(id: number): boolean {
    const usedAt = this.#traffic.get(id)?.usedAt
    return usedAt !== undefined && performance.now() - usedAt < this.#o.timings.idleAfterMs
  }

  /** Probes a server now and tests its scores; `cause` is recorded with a change of state. */
  async probe(row: ServerRow, cause: string): Promise<void> {
    await this.#probe(row, cause)
  }

  async #look(): Promise<void> {
    const now = performance.now()
    const rows = await this.#o.registry.active()
    if (this.#task.stopping) return
    for (const row of rows) this.#noteTraffic(row, now)
    for (const row of rows) {
      if (this.#probing.size >= MAX_AT_ONCE) break
      if (this.#probing.has(row.id) || (this.#nextProbe.get(row.id) ?? 0) > now) continue
      this.#nextProbe.set(row.id, now + this.#pauseOf(row) * (0.8 + 0.4 * Math.random()))
      this.#probing.add(row.id)
      // The probe is not awaited, so that a server that takes 3 s does not delay the others.
      void this.#attend(row)
        .catch((error: Error) => this.#warn(row, error))
        .finally(() => this.#probing.delete(row.id))
    }
  }

  #warn(row: ServerRow, error: Error): void {
    if (isOutage(error)) return
    this.#o.log.warn({ err: error.message, server: row.name }, 'probing a server failed')
  }

  #pauseOf(row: ServerRow): number {
    const { timings } = this.#o
    const newlyGone = row.state === 'unreachable' && row.stateAgeMs < timings.newlyGoneForMs
    if (newlyGone || row.state === 'registering') return timings.newlyGoneEveryMs
    return row.state === 'dead' ? timings.deadEveryMs : timings.probeEveryMs
  }

  #noteTraffic(row: ServerRow, now: number): void {
    const requests = Number(row.requests)
    const good = requests - Number(row.errors)
    const seen = this.#traffic.get(row.id)
    if (!seen) {
      const never = Number.NEGATIVE_INFINITY
      this.#traffic.set(row.id, { requests, good, usedAt: never, goodAt: never })
      return
    }
    if (requests !== seen.requests) seen.usedAt = now
    if (good > seen.good) seen.goodAt = now
    seen.requests = requests
    seen.good = good
  }

  async #attend(row: ServerRow): Promise<void> {
    if (row.state === 'waking' || isDrainingToSleep(row)) {
      if (!this.#o.locks.holds(row.id)) await mendInterrupted(this.#o, this.#cycle, row)
      return
    }
    if (row.state === 'draining') return
    const goodAt = this.#traffic.get(row.id)?.goodAt ?? Number.NEGATIVE_INFINITY
    // A server that has just scored a sample responds, so it needs no probe.
    const there = performance.now() - goodAt < this.#o.timings.idleAfterMs
    if (row.state === 'ready' && there) return
    await this.#probe(row, null)
  }

  async #probe(row: ServerRow, trigger: string | null): Promise<void> {
    // A probe without the server's key says nothing about the server.
    if (row.keyProblem !== null) return
    const result = await probeServer({
      timeoutMs: this.#o.timings.probeTimeoutMs,
      ...probeOfRow(row),
      model: isModelOpen(row) ? null : row.model,
      // Routes are tried again only if the server may have changed, because a server in use should not score test
      // samples.
      known: knownRoute(row, row.state === 'ready' && trigger === null),
    })
    if (result.ok) await this.#answered(row, result, trigger)
    else await this.#failed(row, result, trigger)
  }

  async #answered(row: ServerRow, probe: ProbedServer, trigger: string | null): Promise<void> {
    const { registry } = this.#o
    this.#failures.delete(row.id)
    const otherVersion = row.version !== null && probe.version !== row.version
    if (otherVersion && row.state === 'ready' && !probe.sleeping) {
      // The state changes before the new version is stored, so that a stored version is always tested or being tested.
      await registry.transition(row.id, {
        to: 'probing',
        from: ['ready'],
        cause: `${versionChange(row, probe)}; running the self-test`,
        evidence: { probeMs: probe.durationMs, before: row.version, version: probe.version },
      })
    }
    await registry.probed(row.id, factsOf(probe, row.apiKey))
    if (isModelOpen(row)) {
      if (probe.model !== null) await this.#learnModel(row, probe.model)
      else if (row.state === 'registering') return
    }
    if (row.state === 'sleeping') return this.#checkSleeper(row)
    if (probe.sleeping) {
      // A sleeping server does not answer the calibration, which would hold the lock for up to `selfTestTimeoutMs`.
      await this.#stopCalibration(row.id)
      await this.#o.locks.under(row.id, () =>
        registry.transition(row.id, {
          to: 'sleeping',
          from: ['ready', 'quarantined', 'unreachable', 'dead', 'registering', 'probing'],
          cause: 'found asleep by a probe',
          evidence: { probeMs: probe.durationMs },
          awakeForMs: null,
        }),
      )
      return
    }
    if (row.state === 'ready' && !trigger && !otherVersion) return this.#calibrate(row)
    if (row.state === 'quarantined' && !trigger && !otherVersion && !this.#isTestDue(row)) return
    const why = trigger
      ? `${trigger}, and it responded`
      : otherVersion
        ? versionChange(row, probe)
        : row.state === 'quarantined'
          ? 'self-test repeated'
          : row.state === 'registering'
            ? 'the process responds'
            : 'responds again'
    await this.#test(row, why, probe)
  }

  /**
   * Checks whether a sleeping server was woken outside the service. A server that does not report its state counts as
   * asleep.
   */
  async #checkSleeper(row: ServerRow): Promise<void> {
    const asleep = await isAsleep(row, this.#o.timings.probeTimeoutMs)
    if (asleep === null) return
    this.#reportsSleep.add(row.id)
    if (asleep) return
    await this.#o.locks.under(row.id, async () => {
      const to = {
        to: 'probing',
        from: ['sleeping'],
        cause: 'found awake: woken outside the service',
      } as const
      if ((await this.#o.registry.transition(row.id, to)) !== null) {
        await this.#examine(row.id, 'found awake')
      }
    })
  }

  async #test({ id, state }: ServerRow, why: string, probe: ProbedServer): Promise<void> {
    await this.#stopCalibration(id)
    await this.#o.locks.under(id, async () => {
      await this.#o.registry.transition(id, {
        to: 'probing',
        // A server that was drained after the probe stays drained.
        from: ['unreachable', 'dead', 'registering', ...(state === 'draining' ? [state] : [])],
        cause: `${why}; running the self-test`,
        evidence: { probeMs: probe.durationMs, version: probe.version },
      })
      await this.#examine(id, why)
    })
  }

  async #examine(id: number, why: string): Promise<void> {
    const { registry, timings } = this.#o
    const row = await registry.byNumber(id)
    if (!row) return
    const examination = await this.#trust.examine(row)
    await this.#trust.keep(id, examination)
    await registry.transition(id, {
      to: examination.to,
      from: ['probing', 'ready', 'quarantined'],
      cause: `${why}; ${examination.cause}`,
      evidence: examination.evidence,
    })
    await this.#trust.settle(id, examination)
    const failed = examination.selfTest.verdict === 'failed'
    this.#nextTest.set(
      id,
      performance.now() + (failed ? timings.retestEveryMs : timings.calibrateEveryMs),
    )
  }

  #isTestDue(row: ServerRow): boolean {
    const due = this.#nextTest.get(row.id)
    if (due === undefined) {
      // The time of the last test is unknown. The next one gets a random time, so that a start of the service does not
      // test all servers together.
      const { calibrateEveryMs, retestEveryMs } = this.#o.timings
      const every = row.selfTest?.verdict === 'failed' ? retestEveryMs : calibrateEveryMs
      this.#nextTest.set(row.id, performance.now() + every * Math.random())
      return false
    }
    return performance.now() >= due
  }

  #calibrate(row: ServerRow): void {
    if (!this.#isTestDue(row) || this.isBusy(row.id) || this.#calibrations.has(row.id)) return
    this.#nextTest.set(row.id, performance.now() + this.#o.timings.calibrateEveryMs)
    const stop = new AbortController()
    const ended = this.#lookForDrift(row.id, stop.signal)
      .catch((error: Error) => this.#warn(row, error))
      .finally(() => this.#calibrations.delete(row.id))
    this.#calibrations.set(row.id, { stop, ended })
  }

  /** Stops a server's calibration, if one is in flight, and waits until its lock is released. */
  async #stopCalibration(id: number): Promise<void> {
    const calibration = this.#calibrations.get(id)
    calibration?.stop.abort()
    await calibration?.ended
  }

  async #lookForDrift(id: number, stop: AbortSignal): Promise<void> {
    const { registry, locks } = this.#o
    await locks.under(id, async () => {
      const row = await registry.byNumber(id)
      if (row?.state !== 'ready') return
      const examination = await this.#trust.lookForDrift(row, stop)
      if (examination === null) return
      await this.#trust.keep(id, examination)
      if (examination.to === 'quarantined') {
        await registry.transition(id, {
          to: 'quarantined',
          from: ['ready'],
          cause: examination.cause,
          evidence: examination.evidence,
        })
      }
      await this.#trust.settle(id, examination)
    })
  }

  async #failed(row: ServerRow, failure: ProbeFailure, trigger: string | null): Promise<void> {
    const { registry, timings } = this.#o
    const failures = (this.#failures.get(row.id) ?? 0) + 1
    this.#failures.set(row.id, failures)
    await registry.probed(row.id, null)
    const evidence = { ...failureEvidence(failure, row.apiKey), failures }
    if (row.state === 'unreachable' && row.stateAgeMs > timings.deadAfterMs) {
      await registry.transition(row.id, {
        to: 'dead',
        from: ['unreachable'],
        cause: `unreachable for ${Math.round(row.stateAgeMs / 60_000)} minutes: ${maskSecrets(failure.message, [row.apiKey])}`,
        evidence,
      })
      return
    }
    // A starting process stays `registering`, and a sleeping server that does not report its state stays asleep.
    if (row.state === 'registering') {
      // The cause of the process's end is more informative than a failed probe.
      if (row.stateCause?.includes('; restarts in ')) return
      const what = failure.reason === 'server_unreachable' ? 'does not respond yet' : 'is refused'
      const said = maskSecrets(failure.message, [row.apiKey])
      return registry.explain(row.id, 'registering', `the process runs and ${what}: ${said}`)
    }
    if (row.state === 'dead') return
    if (row.state === 'sleeping' && !this.#reportsSleep.has(row.id)) return
    if (!trigger && failures < FAILURES_TO_UNREACHABLE) return
    await registry.transition(row.id, {
      to: 'unreachable',
      from: ['ready', 'quarantined', 'sleeping', 'probing', 'draining'],
      cause: maskSecrets(failure.message, [row.apiKey]),
      evidence,
    })
  }

  /** Stores the model that a launched server reports, if its launch names none. */
  async #learnModel(row: ServerRow, model: string): Promise<void> {
    const pool = poolOfModel(model)
    await this.#o.queue.ensure(pool)
    await this.#o.registry.learnModel(row.id, model, pool)
  }
}

function versionChange(row: ServerRow, probe: ProbedServer): string {
  return `its version is ${probe.version ?? 'no longer reported'} instead of ${row.version}`
}

/**
 * Whether a launched server's model is still to be learned. A server that was drained during its launch is not
 * `registering`, but has no self-test. A server that was asleep at its first probe has no self-test either, but that
 * probe learned its model.
 */
function isModelOpen({ launch, state, selfTest }: ServerRow): boolean {
  if (launch?.model !== null || state === 'sleeping') return false
  return state === 'registering' || selfTest === null
}
