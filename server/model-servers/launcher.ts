import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { ServerLogDto } from '../contract/server-detail.ts'
import { type LaunchServerInput, PROBED_SETTINGS } from '../contract/servers.ts'
import { RewardOpsError, shuttingDown } from '../errors.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { PROCESS_HOST } from '../process-host.ts'
import { processLives } from '../process-signals.ts'
import { checkServerUrl } from '../router/server-admission.ts'
import { throughOutage } from '../store/database.ts'
import { poolOfModel } from '../store/job-queue.ts'
import { lastServerReport } from '../store/sql/fleet.ts'
import {
  type ServerRow,
  type StoredLaunch,
  settingsOfRow,
  type Transition,
  toStored,
} from '../store/sql/servers.ts'
import { withTimeout } from '../with-timeout.ts'
import { checkKind, readTemplate, refusal } from './admission.ts'
import type { ModelsContext } from './context.ts'
import { tailOf } from './launch-log.ts'
import type { LaunchEnd } from './launch-record.ts'
import {
  adoptable,
  endLeftovers,
  isOwnedByAnother,
  LaunchedProcess,
  launchFolder,
  launchLogFile,
} from './launched-process.ts'
import { DRAIN_REQUESTED, isDrainingToSleep } from './sleep-cycle.ts'

/** Minimum lifetime of a process, in ms, after which its restart delay begins again at 1 s. */
const STEADY_MS = 60_000
/** Time for which background work is retried during an outage of the database, ms. */
const OUTAGE_MS = 120_000
/**
 * Time reserved during a stop for recording the ends of the processes, ms. The stop goes on even if the database is
 * down.
 */
const RECORD_MS = 500
/** Interval at which to look for the next report of another server process, ms. Reports are due every second. */
const REPORT_LOOK_MS = 200
/** Number of successive looks without a new report, 5 s in all, after which a process counts as ended. */
const SILENT_LOOKS = 25

const NEIGHBOR = 'another service on this data folder'
const NOT_IN_FILE = 'no longer in REWARDOPS_SERVERS_FILE'

/** Environment variables that launched processes must not inherit: the service's own settings, such as its keys. */
const OURS = /^(?:REWARDOPS_\w*|DATABASE_URL|PORT|HOST|NODE_ENV|LOG_LEVEL)$/

export interface LaunchOptions {
  dataDir: string
  env: NodeJS.ProcessEnv
  servers: readonly LaunchServerInput[]
  allowCalls: boolean
  /** Id of this server process. */
  processId: number
}

interface Supervised {
  id: number
  input: LaunchServerInput
  process: LaunchedProcess | null
  timer: NodeJS.Timeout | undefined
  failures: number
  stopping: boolean
  /** True when a restart is possible; false when the launch's secrets are no longer known. */
  canRestart: boolean
}

/**
 * Starts reward-model servers as child processes and keeps them running.
 *
 *     start ─▶ registering ──answers──▶ probing ─▶ ready …
 *     its process ends ─▶ registering ──1, 2, 4 … 30 s──▶ start
 *
 * The servers end with the service. After a crash, a service that starts on the same data folder within a minute takes
 * over the processes that it would start identically.
 */
export class ServerLauncher {
  readonly #o: ModelsContext
  readonly #options: LaunchOptions
  readonly #folder: string
  readonly #running = new Map<string, Supervised>()
  /** The last launch or end of each server, by server name. The server's next launch or end waits for it. */
  readonly #turns = new Map<string, Promise<unknown>>()
  /** While the service stops: the time (`performance.now()`) at which servers that still run get SIGKILL. */
  #killAtMs: number | null = null

  constructor(context: ModelsContext, options: LaunchOptions) {
    this.#o = context
    this.#options = options
    this.#folder = launchFolder(options.dataDir)
  }

  get #stopping(): boolean {
    return this.#killAtMs !== null
  }

  async start(): Promise<void> {
    const { log, timings, registry } = this.#o
    const { servers } = this.#options
    // A busy disk can delay the first queries. The queries are retried, because no later attempt follows.
    const read = () => throughOutage(() => registry.active(), { forMs: OUTAGE_MS })
    const seen = new Map<string, { launch: StoredLaunch | null; host: string | null }>()
    const look = async (row: ServerRow) => {
      const host = await this.#hostElsewhere(row, OUTAGE_MS)
      seen.set(row.name, { launch: row.launch, host })
    }
    await Promise.all((await read()).map(look))
    if (this.#stopping) return
    // Calls may have launched, registered or removed servers during this wait.
    const launched = (await read()).filter(({ name, launch }) => {
      const before = seen.get(name)
      return launch !== null && before?.host === null && isDeepStrictEqual(launch, before.launch)
    })
    if (this.#stopping) return
    const left = await endLeftovers(this.#folder, timings.stopWithinMs, (name, { fingerprint }) => {
      if (this.#running.has(name)) return true
      if (seen.get(name)?.host != null) return false
      const wanted = this.#wantedAgain(
        name,
        launched.find((row) => row.name === name),
      )
      // Without its secrets, a launch's fingerprint is unknown. The process is kept, because it is the last one started
      // under this name.
      return wanted !== null && (!wanted.complete || fingerprintOf(wanted.input) === fingerprint)
    })
    if (left.length > 0)
      log.warn({ servers: left }, 'ended servers that an earlier run left running')
    for (const name of new Set([...launched, ...servers].map((one) => one.name))) {
      if (this.#stopping) return
      const before = seen.get(name)
      const host = before?.host ?? null
      if (isOwnedByAnother(this.#folder, name)) {
        log.warn({ server: name }, `not launched: ${NEIGHBOR} runs it`)
      } else if (host !== null) {
        log.error(
          { server: name, host },
          'not launched while the service on this host runs, which has launched a server of the same name',
        )
      } else {
        const resume = () => this.#resume(name, before?.launch)
        try {
          if (await throughOutage(resume, { forMs: OUTAGE_MS })) continue
        } catch (error) {
          // The other servers are launched nevertheless.
          log.error({ err: (error as Error).message, server: name }, 'not launched')
          continue
        }
      }
      if (servers.some((entry) => entry.name === name)) void this.#resumeOnceFree(name)
    }
  }

  /**
   * The host of another running server process that launched a server, or null if there is none. The stored launch
   * decides, not the files and processes of this data folder, because another service may have launched the server
   * while this one was down. A process counts as running once it reports again, because a process that was killed on
   * another host leaves a recent report. The process also counts as running if this service stops during the wait. The
   * wait is a number of looks, not a time, because no process can report during an outage of the database.
   * `outageMs`: time for which reads are retried during an outage.
   */
  async #hostElsewhere({ launch }: ServerRow, outageMs = 0): Promise<string | null> {
    const of = launch?.processId
    if (of === undefined || of === this.#options.processId) return null
    const read = () => throughOutage(() => lastServerReport(this.#o.db, of), { forMs: outageMs })
    const first = await read()
    if (first?.process_host === PROCESS_HOST && !processLives(first.pid)) return null
    for (let looks = 0, last = first; first && last && looks < SILENT_LOOKS; looks++) {
      if (this.#stopping) return last.host
      await pause(REPORT_LOOK_MS)
      last = await read()
      if (last && last.seen_at > first.seen_at) return last.host
    }
    return null
  }

  /**
   * Launches a server of the servers file once no other service runs a server of the same name. A call that launches,
   * registers or removes the server in the meantime is more recent than the file, so the call ends the wait. A removal
   * as `NOT_IN_FILE` does not end the wait: the other service removes a server when it restarts with a servers file
   * that no longer lists the server.
   */
  async #resumeOnceFree(name: string): Promise<void> {
    const { log, registry, timings } = this.#o
    for (;;) {
      await pause(timings.freeNameEveryMs, undefined, { ref: false })
      if (this.#stopping) return
      try {
        const row = await registry.find({ name })
        const isFree = !row && (await registry.causeOfRemoval(name)) === NOT_IN_FILE
        if (this.#running.has(name) || (!row?.launch && !isFree)) {
          log.info({ server: name }, 'not launched any more: a call has changed it')
          return
        }
        if (row && (await this.#hostElsewhere(row)) !== null) continue
        if (await this.#resume(name, row?.launch)) return
      } catch (error) {
        log.warn({ err: (error as Error).message, server: name }, 'not launched yet')
      }
    }
  }

  /** The launch of a server that is in the servers file, or that a call of an earlier run launched. */
  #wantedAgain(
    name: string,
    row: ServerRow | undefined,
  ): { input: LaunchServerInput; source: StoredLaunch['source']; complete: boolean } | null {
    const input = this.#options.servers.find((one) => one.name === name)
    if (input !== undefined) return { input, source: 'file', complete: true }
    const launch = row?.launch
    if (row === undefined || launch?.source !== 'call' || !this.#options.allowCalls) return null
    const complete = launch.complete && row.keyProblem === null
    return { input: inputOf(row, launch), source: 'call', complete }
  }

  /**
   * `servers.launch`: registers a server and starts its process. Launching an existing name restarts it.
   * @throws RewardOpsError `launch_disabled`, `server_busy`, and the errors of an invalid registration
   */
  async launch(input: LaunchServerInput): Promise<number> {
    const { registry } = this.#o
    const { name } = input
    if (!this.#options.allowCalls) {
      throw new RewardOpsError(
        'launch_disabled',
        'Launching servers through the API is not allowed.',
      )
    }
    checkKind(input.engine, input.kind)
    readTemplate(input, null)
    const url = checkServerUrl(urlOf(input))
    if (!url.ok) throw refusal(url)
    if (isOwnedByAnother(this.#folder, name)) {
      throw new RewardOpsError('server_busy', `${name} is launched by ${NEIGHBOR}.`)
    }
    const known = await registry.find({ name })
    const host = known === undefined ? null : await this.#hostElsewhere(known)
    if (this.#stopping) throw shuttingDown()
    if (host !== null) {
      throw new RewardOpsError(
        'server_busy',
        `${name} is launched by the service on the host ${host}.`,
        { hint: 'Launch it under another name, or remove it first.' },
      )
    }
    return this.#inTurn(name, async () => {
      await this.#end(name)
      return this.#begin(input, 'call', await registry.find({ name }))
    })
  }

  /** The service that launched a server and keeps its process running, or null if there is none. */
  async launcherOf(row: ServerRow): Promise<string | null> {
    if (isOwnedByAnother(this.#folder, row.name)) return NEIGHBOR
    if (this.#running.has(row.name) || adoptable(this.#folder, row.name)) return 'this service'
    const host = await this.#hostElsewhere(row)
    return host === null ? null : `the service on the host ${host}`
  }

  /** Ends a server's process without a restart, unless the server still belongs to this service. */
  endIfLost(name: string): Promise<void> {
    return this.#inTurn(name, async () => {
      if (this.#isOurs(await this.#o.registry.find({ name })) || !this.#running.has(name)) return
      this.#o.log.info({ server: name }, 'ended: a call removed it, or another service launched it')
      await this.#end(name)
    })
  }

  /**
   * Ends the processes of servers that were removed by another server process, or that another service has launched
   * while this one was paused or cut off from the database.
   */
  async endLost(): Promise<void> {
    if (this.#running.size === 0) return
    const rows = await this.#o.registry.active()
    const ours = new Set(rows.filter((row) => this.#isOurs(row)).map(({ name }) => name))
    const lost = [...this.#running.keys()].filter((name) => !ours.has(name))
    await Promise.all(lost.map((name) => this.endIfLost(name)))
  }

  /** Launches and ends of one server take turns, because a second process would replace the record of the first. */
  #inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(work)
    this.#turns.set(
      name,
      turn.catch(() => {}),
    )
    return turn
  }

  async #end(name: string): Promise<void> {
    const supervised = this.#running.get(name)
    if (!supervised) return
    this.#running.delete(name)
    supervised.stopping = true
    clearTimeout(supervised.timer)
    await supervised.process?.stop(this.#o.timings.stopWithinMs)
  }

  async stop(withinMs: number): Promise<void> {
    const killAtMs = performance.now() + withinMs - RECORD_MS
    this.#killAtMs = killAtMs
    await Promise.all([
      // A turn may wait for a query that the database does not answer.
      withTimeout(Promise.all(this.#turns.values()), withinMs),
      ...[...this.#running.values()].map((one) => this.#endWithService(one, killAtMs)),
    ])
  }

  async #endWithService(supervised: Supervised, killAtMs: number): Promise<void> {
    supervised.stopping = true
    clearTimeout(supervised.timer)
    // The server is marked as unreachable before its process ends, so that workers on other machines stop their calls.
    await withTimeout(this.#gone(supervised.id), RECORD_MS).catch(() => {})
    const leftMs = Math.max(0, killAtMs - performance.now())
    await supervised.process?.stop(Math.min(leftMs, this.#o.timings.stopWithinMs))
  }

  async #gone(id: number): Promise<void> {
    const { registry } = this.#o
    const row = await registry.byNumber(id)
    if (!this.#isOurs(row) || isDrained(row)) return
    await registry.transition(id, { to: 'unreachable', cause: 'the process ends with the service' })
  }

  /** Whether the latest launch of a server was by this service. If not, the server's row describes another process. */
  #isOurs(row: ServerRow | undefined): row is ServerRow {
    return row?.launch?.processId === this.#options.processId
  }

  /** The last lines of a launched server's output. @throws RewardOpsError `server_not_launched` */
  log(row: ServerRow, lines: number): ServerLogDto {
    if (row.launch === null) {
      throw new RewardOpsError(
        'server_not_launched',
        `${row.name} was not launched by this service, so it has no log here.`,
      )
    }
    return { name: row.name, lines: tailOf(launchLogFile(this.#folder, row.name), lines) }
  }

  /**
   * Continues a server of the servers file or of an earlier run: takes over or starts its process, or marks the server
   * as unreachable. A server that is no longer in the file is removed. Returns false, without a change, if this service
   * is stopping, if a service already runs the server, or if the stored launch is neither `before` nor this service's
   * own. (An attempt that an outage interrupted may have stored this service's launch.)
   */
  #resume(name: string, before: StoredLaunch | null | undefined): Promise<boolean> {
    return this.#inTurn(name, async () => {
      const { registry } = this.#o
      const row = await registry.find({ name })
      const isTaken = this.#running.has(name) || isOwnedByAnother(this.#folder, name)
      const isSame = isDeepStrictEqual(row?.launch, before) || this.#isOurs(row)
      if (this.#stopping || isTaken || !isSame) return false
      const wanted = this.#wantedAgain(name, row)
      const left = wanted && row?.launch && adoptable(this.#folder, name)
      if (left && (await this.#takeOver(row, wanted.input, left.pid, wanted.complete))) return true
      if (wanted?.complete) await this.#begin(wanted.input, wanted.source, row, true)
      else if (row?.launch?.source === 'file') {
        await registry.remove(row.id, NOT_IN_FILE)
      } else if (row) {
        await registry.transition(row.id, {
          to: 'unreachable',
          cause: row.launch?.complete
            ? 'the process ended with the service, and REWARDOPS_ALLOW_LAUNCH is not set'
            : 'the process ended with the service, and its secrets are not stored: launch it again',
        })
      }
      return true
    })
  }

  async #begin(
    input: LaunchServerInput,
    source: StoredLaunch['source'],
    known: ServerRow | undefined,
    isStart = false,
  ): Promise<number> {
    const { registry, queue, timings } = this.#o
    // A process that an earlier run left is stopped, because it may have another command.
    await LaunchedProcess.adopt(this.#folder, input.name)?.stop(timings.stopWithinMs)
    const secrets = secretsOf(input)
    const argv = input.command.map((word) => maskSecrets(word, secrets))
    const launch: StoredLaunch = {
      argv,
      cwd: input.cwd ?? null,
      source,
      model: input.model ?? null,
      complete:
        Object.keys(input.env).length === 0 && argv.every((word, i) => word === input.command[i]),
      processId: this.#options.processId,
    }
    // Until the server reports its model, the server's name is stored as the model. No batch requests a model of that
    // name.
    const model = input.model ?? known?.model ?? input.name
    const pool = input.model == null ? null : poolOfModel(model)
    if (pool !== null) await queue.ensure(pool)
    const drained = isStart && known !== undefined && isDrained(known)
    const id = await registry.save(input.name, {
      fields: {
        ...toStored(input),
        url: urlOf(input),
        engine: input.engine,
        kind: input.kind,
        model,
        chatTemplate: readTemplate(input, null),
      },
      facts: null,
      launch,
      selfTest: null,
      state: drained ? 'draining' : 'registering',
      cause: drained ? (known.stateCause ?? DRAIN_REQUESTED) : 'the process is starting',
      evidence: { program: argv[0] as string, source },
      pool,
    })
    this.#spawn(this.#supervise(id, input, true))
    return id
  }

  #supervise(id: number, input: LaunchServerInput, canRestart: boolean): Supervised {
    const supervised: Supervised = {
      id,
      input,
      process: null,
      timer: undefined,
      failures: 0,
      stopping: false,
      canRestart,
    }
    this.#running.set(input.name, supervised)
    return supervised
  }

  /**
   * Takes over a process that an earlier run left. Returns false if it has ended meanwhile. The process is adopted
   * after the writes, so that the writes can be repeated after an outage.
   */
  async #takeOver(
    row: ServerRow,
    input: LaunchServerInput,
    pid: number,
    complete: boolean,
  ): Promise<boolean> {
    const { registry, log } = this.#o
    // First, the row is changed to name this service, because only the service that the row names records the end of
    // the process.
    const launch = { ...(row.launch as StoredLaunch), processId: this.#options.processId }
    await registry.launchedBy(row.id, launch)
    // The settings excluded below keep their stored values. The process was probed with them, and a user may have set
    // `selfTestOverride` after the launch.
    const { apiKey, chatTemplate, namedRoute, label, selfTestOverride, ...settings } =
      toStored(input)
    await registry.update(row.id, settings)
    await registry.note(row.id, {
      kind: 'process',
      from: row.state,
      to: row.state,
      cause: 'the process was taken over from a stopped service',
      evidence: { pid },
    })
    const process = LaunchedProcess.adopt(this.#folder, row.name)
    if (process === null) return false
    const supervised = this.#supervise(row.id, input, complete)
    this.#watchEnd(supervised, process)
    log.info({ server: row.name, pid }, 'took over a launched server')
    // If the service began to stop during the writes, the stop missed this process.
    if (this.#killAtMs !== null) await this.#endWithService(supervised, this.#killAtMs)
    return true
  }

  #spawn(supervised: Supervised): void {
    if (supervised.stopping || this.#stopping) return
    const { input } = supervised
    const inherited = Object.entries(this.#options.env).filter(([key]) => !OURS.test(key))
    const command = {
      name: input.name,
      argv: input.command,
      cwd: input.cwd,
      env: { ...Object.fromEntries(inherited), ...input.env } as NodeJS.ProcessEnv,
      secrets: secretsOf(input),
      fingerprint: fingerprintOf(input),
    }
    const { stopWithinMs } = this.#o.timings
    try {
      this.#watchEnd(supervised, LaunchedProcess.start(this.#folder, command, stopWithinMs))
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const said = `could not be started (${code ?? message})`
      const end = { code: null, signal: null, error: said, livedMs: 0, lastLines: [] }
      this.#recordEnd(supervised, Promise.resolve(end))
    }
  }

  #watchEnd(supervised: Supervised, process: LaunchedProcess): void {
    supervised.process = process
    this.#recordEnd(supervised, process.ended)
  }

  #recordEnd(supervised: Supervised, ended: Promise<LaunchEnd>): void {
    void ended
      .then((end) => this.#ended(supervised, end))
      .catch((error: Error) => {
        this.#o.log.warn(
          { err: error.message, server: supervised.input.name },
          'end of a launched server not recorded',
        )
      })
  }

  /** Marks an ended server as unreachable. It cannot be restarted: only the service that launched it had its secrets. */
  async #notRestarted({ id, input }: Supervised, end: LaunchEnd): Promise<void> {
    const row = await this.#o.registry.byNumber(id)
    // A call may have launched the server again during an outage.
    if (!this.#isOurs(row) || this.#running.has(input.name)) return
    const how = howEnded(end)
    await this.#o.registry.transition(id, {
      to: 'unreachable',
      cause: `the process ${how}, and its secrets are not stored: launch it again`,
      evidence: { exitCode: end.code, signal: end.signal, lastLines: end.lastLines },
    })
  }

  async #ended(supervised: Supervised, end: LaunchEnd): Promise<void> {
    supervised.process = null
    if (supervised.stopping || this.#stopping) return
    if (!supervised.canRestart) {
      this.#running.delete(supervised.input.name)
      return throughOutage(() => this.#notRestarted(supervised, end), { forMs: OUTAGE_MS })
    }
    supervised.failures = end.livedMs > STEADY_MS ? 0 : supervised.failures + 1
    const waitMs = Math.min(
      this.#o.timings.restartAtMostMs,
      1_000 * 2 ** Math.max(0, supervised.failures - 1),
    )
    supervised.timer = setTimeout(() => this.#spawn(supervised), waitMs)
    const how = howEnded(end)
    const cause = `the process ${how}; restarts in ${waitMs / 1_000} s`
    const evidence = {
      exitCode: end.code,
      signal: end.signal,
      livedMs: end.livedMs,
      lastLines: end.lastLines,
    }
    this.#o.log.warn(
      { server: supervised.input.name, command: supervised.input.command[0], how },
      'launched server ended',
    )
    const note = () => this.#noteRestart(supervised, { cause, evidence })
    return throughOutage(note, { forMs: OUTAGE_MS })
  }

  async #noteRestart(
    supervised: Supervised,
    why: Pick<Transition, 'cause' | 'evidence'>,
  ): Promise<void> {
    const { registry } = this.#o
    const row = await registry.byNumber(supervised.id)
    if (supervised.stopping || this.#stopping) return
    if (!this.#isOurs(row)) return this.endIfLost(supervised.input.name)
    const note = (state: 'draining' | 'registering') =>
      registry.note(supervised.id, { kind: 'process', from: state, to: state, ...why })
    if (isDrained(row)) return note('draining')
    if ((await registry.transition(supervised.id, { to: 'registering', ...why })) !== null) return
    await note('registering')
    await registry.explain(supervised.id, 'registering', why.cause)
  }
}

/** Whether a user has drained a server. Only a user ends such a drain. */
function isDrained(row: ServerRow): boolean {
  return row.state === 'draining' && !isDrainingToSleep(row)
}

/** What happened to a process, to be printed after "the process". */
function howEnded({ error, signal, code }: LaunchEnd): string {
  return error ?? `ended with ${signal ?? `code ${code}`}`
}

/** Rebuilds the launch of a server from its row. Secrets and environment are not stored. */
function inputOf(row: ServerRow, launch: StoredLaunch): LaunchServerInput {
  return {
    name: row.name,
    engine: row.engine,
    kind: row.kind,
    model: launch.model,
    url: row.url,
    command: launch.argv,
    ...(launch.cwd === null ? {} : { cwd: launch.cwd }),
    env: {},
    ...settingsOfRow(row),
  }
}

/** A digest that is equal for launches whose processes are interchangeable. */
function fingerprintOf(input: LaunchServerInput): string {
  const { engine, kind, command, cwd, env } = input
  const model = input.model ?? null
  const parts = [
    ...[engine, kind, model, urlOf(input), command, cwd ?? null],
    ...PROBED_SETTINGS.map((field) => input[field] ?? null),
    Object.entries(env).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

function urlOf(input: LaunchServerInput): string {
  const url = input.url ?? `http://127.0.0.1:${input.port}`
  const checked = checkServerUrl(url)
  return checked.ok ? checked.url : url
}

function secretsOf(input: LaunchServerInput): string[] {
  return [...(input.apiKey == null ? [] : [input.apiKey]), ...Object.values(input.env)]
}
