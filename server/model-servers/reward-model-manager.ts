import { isOverridable, isTrusted } from '../contract/self-test-verdict.ts'
import type { ServerLogDto } from '../contract/server-detail.ts'
import {
  type LaunchServerInput,
  PROBED_SETTINGS,
  type RegisterServerInput,
  type ServerRef,
  type UpdateServerInput,
} from '../contract/servers.ts'
import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { maskSecrets } from '../mask-secrets.ts'
import {
  abilitiesOf,
  checkServerUrl,
  type ProbeFailure,
  probeServer,
  type SleepLevel,
} from '../router/server-admission.ts'
import type { Database } from '../store/database.ts'
import { type JobQueue, poolOfModel } from '../store/job-queue.ts'
import { ServerLocks } from '../store/server-locks.ts'
import { type RegistrationFields, ServerRegistry } from '../store/server-registry.ts'
import { type ServerRow, settingsOfRow } from '../store/sql/servers.ts'
import {
  checkKind,
  checkPool,
  checkScoreSettings,
  factsOf,
  failureEvidence,
  fieldsOf,
  keptFields,
  probeWishes,
  readTemplate,
  refusal,
} from './admission.ts'
import type { ModelsContext } from './context.ts'
import { type LaunchOptions, ServerLauncher } from './launcher.ts'
import { ScoreTrust, type Subject } from './score-trust.ts'
import { ServerWatch } from './server-watch.ts'
import { DRAIN_REQUESTED, isDrainingToSleep, SleepCycle } from './sleep-cycle.ts'
import { SleepSweep } from './sleep-sweep.ts'
import { MODEL_TIMINGS, type ModelTimings } from './timings.ts'

const AWAKE_FOR_CALLERS_MS = 300_000

export interface RewardModelManagerOptions {
  /**
   * Resolves to true if this process currently does this kind of background work. Unset if there is no other process.
   */
  isTurn?: (kind: string) => Promise<boolean>
  db: Database
  /** A pool of one permanent connection, which owns the locks of servers. */
  control: Database
  queue: JobQueue
  log: Logger
  launch: LaunchOptions
  timings?: Partial<ModelTimings>
}

export type ServerChanges = Omit<UpdateServerInput, keyof ServerRef>

/**
 * Registers, launches and probes reward-model servers, tests their scores, puts them to sleep and wakes them. The
 * states of a server are described in server/contract/servers.ts. This class is the facade of the classes that change
 * these states.
 */
export class RewardModelManager {
  readonly #o: ModelsContext
  readonly #trust: ScoreTrust
  readonly #cycle: SleepCycle
  readonly #watch: ServerWatch
  readonly #sweep: SleepSweep
  readonly #launcher: ServerLauncher

  constructor(options: RewardModelManagerOptions) {
    const { db, queue, log, launch } = options
    this.#o = {
      db,
      queue,
      log,
      registry: new ServerRegistry(db),
      locks: new ServerLocks(options.control),
      timings: { ...MODEL_TIMINGS, ...options.timings },
      processId: launch.processId,
      isTurn: options.isTurn,
    }
    this.#trust = new ScoreTrust(this.#o)
    this.#cycle = new SleepCycle(this.#o, this.#trust)
    this.#watch = new ServerWatch(this.#o, this.#trust, this.#cycle)
    this.#sweep = new SleepSweep(this.#o, this.#cycle, (id) => this.#watch.isBusy(id))
    this.#launcher = new ServerLauncher(this.#o, launch)
  }

  start(): void {
    this.#watch.start()
    this.#sweep.start()
    this.#launcher
      .start()
      .catch((error: Error) => this.#o.log.error({ err: error.message }, 'servers not launched'))
  }

  /** Stops background work; called before the workers stop. */
  async stop(): Promise<void> {
    this.#cycle.stop()
    await Promise.all([this.#watch.stop(), this.#sweep.stop()])
  }

  /** Ends the launched servers, with SIGKILL after `withinMs`; called after the workers have stopped. */
  async close(withinMs: number): Promise<void> {
    await this.#launcher.stop(withinMs)
  }

  /**
   * Registers a server after a probe and a self-test, as `ready` or as `quarantined` with the verdict. A sleeping
   * server is not tested. A server that cannot be used is refused, or registered as `unreachable` if `ifUnreachable` is
   * "keep".
   * @throws RewardOpsError when the server is refused; nothing changes then
   */
  async register(input: RegisterServerInput): Promise<ServerRow> {
    readTemplate(input, null)
    if (input.engine !== 'auto') checkKind(input.engine, input.kind)
    checkScoreSettings(input.engine, input)
    const url = checkServerUrl(input.url)
    if (!url.ok) throw refusal(url)
    const known = await this.#o.registry.find({ name: input.name })
    if (!known) return this.#admit(input, url.url, undefined)
    const launcher = await this.#launcher.launcherOf(known)
    if (launcher !== null) {
      throw new RewardOpsError(
        'server_busy',
        `${input.name} is launched by ${launcher}, which also registers it.`,
        { hint: 'Change it with servers.update, or remove it first.' },
      )
    }
    if (!(await this.#o.locks.takeWithin(known.id, PROBE_WAIT_MS))) {
      throw busy(known, 'registered again')
    }
    try {
      return await this.#admit(input, url.url, known)
    } finally {
      await this.#o.locks.release(known.id)
    }
  }

  async #admit(
    input: RegisterServerInput,
    url: string,
    known: ServerRow | undefined,
  ): Promise<ServerRow> {
    const { registry, queue, timings } = this.#o
    const apiKey = input.apiKey ?? null
    const probe = await probeServer({
      url,
      engine: input.engine,
      apiKey,
      timeoutMs: timings.registerTimeoutMs,
      ...probeWishes(input),
    })
    const fields = probe.ok ? fieldsOf(input, probe) : keptFields(input, url, probe)
    if (probe.ok) checkKind(probe.engine, input.kind)
    checkPool(input.name, fields, await registry.active())
    const pool = poolOfModel(fields.model)
    await queue.ensure(pool)
    if (!probe.ok) return this.#keep(input.name, fields, probe, pool)
    const facts = factsOf(probe, apiKey)
    // A server that was asleep and does not report its state counts as still asleep, because a call could crash it.
    const remembered = known?.state === 'sleeping' && known.url === fields.url && !probe.sleeping
    const asleep =
      probe.sleeping || (remembered && abilitiesOf(probe.engine).lifecycle?.reportsSleep === false)
    const seen = { probeMs: probe.durationMs, engine: probe.engine, version: probe.version }
    const examination = asleep
      ? null
      : await this.#trust.examine(subject(input.name, fields, facts, known), true)
    if (examination?.routeMissing) {
      const failure = noScoreRoute(probe.engine, input.kind, examination.selfTest.detail)
      return this.#keep(input.name, keptFields(input, url, failure), failure, pool)
    }
    const id = await registry.save(input.name, {
      fields,
      facts,
      // No service runs a launched server of this name any more, so its launch must not be repeated.
      launch: null,
      selfTest: examination?.selfTest ?? null,
      state: examination?.to ?? 'sleeping',
      cause: examination ? `registered; ${examination.cause}` : 'registered asleep',
      evidence: { ...seen, ...(examination?.evidence ?? {}) },
      pool,
    })
    this.#watch.forget(id)
    if (examination) await this.#trust.settle(id, examination)
    return this.find({ id: `s${id}` })
  }

  async #keep(
    name: string,
    fields: RegistrationFields,
    failure: ProbeFailure,
    pool: string,
  ): Promise<ServerRow> {
    const id = await this.#o.registry.save(name, {
      fields,
      facts: null,
      launch: null,
      // A registration accepts the server's present scores, so earlier baselines do not count.
      selfTest: null,
      state: 'unreachable',
      cause: maskSecrets(failure.message, [fields.apiKey]),
      evidence: failureEvidence(failure, fields.apiKey),
      pool,
    })
    this.#watch.forget(id)
    return this.find({ id: `s${id}` })
  }

  /** Starts a server as a child process and registers it. @throws RewardOpsError `launch_disabled`, `server_busy` */
  async launch(input: LaunchServerInput): Promise<ServerRow> {
    return this.find({ id: `s${await this.#launcher.launch(input)}` })
  }

  async log(ref: ServerRef, lines: number): Promise<ServerLogDto> {
    return this.#launcher.log(await this.find(ref), lines)
  }

  /**
   * Changes a server. A new URL, key, chat template, route or label registers the server again, with a probe and
   * a self-test.
   */
  async update(ref: ServerRef, changes: ServerChanges): Promise<ServerRow> {
    const row = await this.find(ref)
    const given = Object.fromEntries(
      Object.entries(changes).filter(([, value]) => value !== undefined),
    ) as Pick<RegisterServerInput, keyof ServerChanges>
    if (given.url !== undefined || PROBED_SETTINGS.some((field) => field in given)) {
      const launcher = await this.#launcher.launcherOf(row)
      if (launcher !== null) {
        throw new RewardOpsError(
          'server_busy',
          `${row.name} is launched by ${launcher}; its URL, key, chat template, route and label are set by its launch.`,
        )
      }
      const { name, url, engine, kind, model } = row
      return this.register({
        ...{ name, url, engine, kind, model, ifUnreachable: 'refuse' },
        ...settingsOfRow(row),
        ...given,
      })
    }
    if (changes.selfTestOverride !== undefined) await this.#override(row, changes.selfTestOverride)
    await this.#o.registry.update(row.id, given)
    return this.find(ref)
  }

  /**
   * Changes the server's state to match a user's override of the self-test.
   * @throws RewardOpsError `unsupported_setting` for a verdict that cannot be overridden
   */
  async #override(row: ServerRow, override: boolean): Promise<void> {
    const test = row.selfTest
    if (test === null || isTrusted(test.verdict)) return
    if (override && !isOverridable(test.verdict)) {
      throw new RewardOpsError(
        'unsupported_setting',
        `selfTestOverride: a server with the verdict "${test.verdict}" stays quarantined: ${test.detail}`,
        { hint: 'Fix how it is served or registered, then probe it.' },
      )
    }
    await this.#o.registry.transition(row.id, {
      to: override ? 'ready' : 'quarantined',
      from: override ? ['quarantined'] : ['ready'],
      cause: override
        ? `trusted anyway: its self-test (${test.verdict}) was overridden`
        : `self-test ${test.verdict}: ${test.detail}`,
      evidence: { verdict: test.verdict, override },
    })
  }

  async drain(ref: ServerRef): Promise<ServerRow> {
    const row = await this.find(ref)
    if (row.state === 'sleeping' || row.state === 'waking' || isDrainingToSleep(row)) {
      throw busy(row, 'drained')
    }
    await this.#o.registry.transition(row.id, {
      to: 'draining',
      from: ['ready', 'unreachable', 'quarantined', 'probing', 'dead', 'registering'],
      cause: DRAIN_REQUESTED,
    })
    return this.find(ref)
  }

  /** Returns a drained server to service after a probe and a self-test, or cancels a sleep that waits for a drain. */
  async resume(ref: ServerRef): Promise<ServerRow> {
    const row = await this.find(ref)
    await this.#cycle.cancelSleep(row.id, 'resume requested')
    const now = await this.find(ref)
    if (now.state === 'draining' && !isDrainingToSleep(now)) {
      await this.#watch.probe(now, 'resumed')
    }
    return this.find(ref)
  }

  /** Probes a server now and tests its scores. A server that is waking or draining is returned unchanged. */
  async probe(ref: ServerRef): Promise<ServerRow> {
    const row = await this.find(ref)
    if (row.state === 'waking' || row.state === 'draining') return row
    await this.#watch.probe(row, 'probe requested')
    return this.find(ref)
  }

  /**
   * Drains a server and puts it to sleep. A server that is not idle within a minute returns to service.
   * @throws RewardOpsError `server_cannot_sleep`, `server_busy`, `server_unreachable`
   */
  async sleep(ref: ServerRef, level: SleepLevel): Promise<ServerRow> {
    return this.#cycle.sleep(await this.find(ref), level, 'sleep requested')
  }

  /** Wakes a server for at least `forMs`. @throws RewardOpsError `server_busy`, `server_unreachable` */
  async wake(ref: ServerRef, forMs: number): Promise<ServerRow> {
    const row = await this.find(ref)
    return this.#cycle.wake(row, forMs, 'wake requested')
  }

  /** Wakes the sleeping servers of a requested model in the background. A failed wake is logged and not retried. */
  wakeModel(model: string): void {
    const wakeAll = async () => {
      const rows = await this.#o.registry.active()
      const asleep = rows.filter((row) => row.model === model && row.state === 'sleeping')
      await Promise.all(
        asleep.map((row) =>
          this.#cycle.wake(row, AWAKE_FOR_CALLERS_MS, 'a request needs its model'),
        ),
      )
    }
    wakeAll().catch((error: Error) =>
      this.#o.log.warn({ err: error.message, model }, 'model not woken'),
    )
  }

  async remove(ref: ServerRef): Promise<ServerRow> {
    const row = await this.find(ref)
    // Waits for a wake in progress, because a server that is removed while it wakes would stay awake unnoticed.
    if (!(await this.#o.locks.takeWithin(row.id, PROBE_WAIT_MS))) {
      throw busy(await this.find(ref), 'removed')
    }
    try {
      await this.#o.registry.remove(row.id, 'removed')
    } finally {
      await this.#o.locks.release(row.id)
    }
    await this.#launcher.endIfLost(row.name)
    return row
  }

  /**
   * Ends the processes of servers that no longer belong to this service. Called when the registered servers have
   * changed.
   */
  endLost(): void {
    this.#launcher
      .endLost()
      .catch((error: Error) => this.#o.log.warn({ err: error.message }, 'lost servers not ended'))
  }

  /** A server's row. @throws RewardOpsError `server_not_found` */
  async find(ref: ServerRef): Promise<ServerRow> {
    const row = await this.#o.registry.find(ref)
    if (!row)
      throw new RewardOpsError(
        'server_not_found',
        `There is no server ${ref.id ?? `"${ref.name}"`}.`,
      )
    return row
  }
}

function noScoreRoute(
  engine: string,
  kind: RegisterServerInput['kind'],
  detail: string,
): ProbeFailure {
  if (kind === 'generative') {
    return {
      ok: false,
      reason: 'server_not_recognized',
      cause: 'other_kind',
      message: `the server cannot be a judge: ${detail}`,
      hint: 'Register it with "kind": "discriminative", or serve a model that generates.',
    }
  }
  return {
    ok: false,
    reason: 'server_not_recognized',
    cause: 'other_engine',
    message: `the server lacks the scoring route of ${engine}: ${detail}`,
    hint: 'Register it with "engine": "auto", or check its engine and that its model returns scores.',
  }
}

/** Time to wait for a server's lock, in ms: enough for a probe or a self-test, not for a wake or a drain. */
const PROBE_WAIT_MS = 10_000

function busy(row: ServerRow, what: string): RewardOpsError {
  return new RewardOpsError(
    'server_busy',
    `${row.name} cannot be ${what} while it is ${row.state} (${row.stateCause ?? 'no cause'}).`,
  )
}

/** The subject of a self-test for a server that has no row yet, or whose row is about to change. */
function subject(
  name: string,
  fields: RegistrationFields,
  facts: ReturnType<typeof factsOf>,
  known: ServerRow | undefined,
): Subject {
  return {
    ...fields,
    id: known?.id ?? Number.MAX_SAFE_INTEGER,
    name,
    version: facts.version,
    route: facts.route ?? null,
    label: facts.label ?? fields.label,
    plainText: facts.plainText ?? false,
    maxModelLen: facts.maxModelLen,
    selfTest: null,
    state: 'probing',
  }
}
