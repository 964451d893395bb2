import { RewardOpsError } from '../../errors.ts'
import { checkServerUrl } from '../../router/server-admission.ts'
import { throughOutage } from '../../store/database.ts'
import { poolOfModel } from '../../store/job-queue.ts'
import type { ServerRow, StoredLaunch } from '../../store/sql/servers.ts'
import type { ServerLogDto } from '../../wire/server-detail.ts'
import type { LaunchServerInput } from '../../wire/servers.ts'
import { checkKind, readTemplate, refusal } from './admission.ts'
import type { ModelsContext } from './context.ts'
import { tailOf } from './launch-log.ts'
import {
  endLeftovers,
  type LaunchEnd,
  LaunchedProcess,
  launchFolder,
  launchLogFile,
} from './launched-process.ts'
import { maskSecrets } from './secrets.ts'

/** A process that lived this long is started again at once when it ends, the next time too. */
const STEADY_MS = 60_000
/** The registry is asked for again for this long while the database is away. */
const READ_WITHIN_MS = 120_000

/** Settings of the service that launched processes must not inherit: its keys, its database, its own port. */
const OURS = /^(?:REWARDOPS_\w*|DATABASE_URL|PORT|HOST|NODE_ENV|LOG_LEVEL)$/

/** What launching is allowed and told by the configuration. */
export interface LaunchOptions {
  /** Absolute; logs and pid files go into its folder `servers`. */
  dataDir: string
  /** The service's own environment. */
  env: NodeJS.ProcessEnv
  /** From REWARDOPS_SERVERS_FILE. */
  servers: readonly LaunchServerInput[]
  /** servers.launch is allowed. */
  allowCalls: boolean
}

interface Supervised {
  id: number
  input: LaunchServerInput
  process: LaunchedProcess | null
  timer: NodeJS.Timeout | undefined
  failures: number
  stopping: boolean
}

/**
 * Starts reward-model servers as processes of ours and keeps them running.
 *
 *     start ─▶ registering ──answers──▶ probing ─▶ ready …
 *     its process ends ─▶ registering ──1, 2, 4 … 30 s──▶ start
 *
 * They end with the service, and what a service that crashed left running is ended by the next.
 */
export class ServerLauncher {
  readonly #o: ModelsContext
  readonly #options: LaunchOptions
  readonly #folder: string
  readonly #running = new Map<string, Supervised>()
  #stopping = false

  constructor(context: ModelsContext, options: LaunchOptions) {
    this.#o = context
    this.#options = options
    this.#folder = launchFolder(options.dataDir)
  }

  /** Ends what is left of an earlier run, then starts what is configured and what was launched before. */
  async start(): Promise<void> {
    const { log, timings, registry } = this.#o
    const left = await endLeftovers(this.#folder, timings.stopWithinMs)
    if (left.length > 0)
      log.warn({ servers: left }, 'servers that an earlier run left running ended')
    // Busy disks and starting neighbours can hold the first query up; nobody would launch them later.
    const rows = await throughOutage(() => registry.active(), { forMs: READ_WITHIN_MS })
    for (const row of rows.filter((r) => r.launch !== null)) await this.#resume(row)
    for (const entry of this.#options.servers) {
      if (!this.#stopping) await this.#begin(entry, 'file')
    }
  }

  /** `servers.launch`: registers a server and starts its process. The same name again starts it anew. */
  async launch(input: LaunchServerInput): Promise<number> {
    if (!this.#options.allowCalls) {
      throw new RewardOpsError(
        'launch_disabled',
        'Launching servers by a call is not allowed here.',
      )
    }
    checkKind(input.engine, input.kind)
    readTemplate(input, null)
    const url = checkServerUrl(urlOf(input))
    if (!url.ok) throw refusal(url)
    return this.#begin(input, 'call')
  }

  /** Whether a server's process is ours to run. */
  runs(name: string): boolean {
    return this.#running.has(name)
  }

  /** Ends a server's process for good. */
  async end(name: string): Promise<void> {
    const supervised = this.#running.get(name)
    if (!supervised) return
    this.#running.delete(name)
    supervised.stopping = true
    clearTimeout(supervised.timer)
    await supervised.process?.stop(this.#o.timings.stopWithinMs)
  }

  /** Ends all processes; SIGKILL after `withinMs`. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping = true
    await Promise.all(
      [...this.#running.values()].map(async (supervised) => {
        supervised.stopping = true
        clearTimeout(supervised.timer)
        // Workers on other machines may live on.
        const gone = this.#o.registry.transition(supervised.id, {
          to: 'unreachable',
          cause: 'its process ends with the service',
        })
        await gone.catch(() => {})
        await supervised.process?.stop(Math.min(withinMs, this.#o.timings.stopWithinMs))
      }),
    )
  }

  /** The end of a launched server's output. Throws `server_not_launched`. */
  log(row: ServerRow, lines: number): ServerLogDto {
    if (row.launch === null) {
      throw new RewardOpsError(
        'server_not_launched',
        `${row.name} was not started by this service, so there is no log of it.`,
      )
    }
    return { name: row.name, lines: tailOf(launchLogFile(this.#folder, row.name), lines) }
  }

  /** A server of an earlier run that no file speaks for: started again where all it takes is known. */
  async #resume(row: ServerRow): Promise<void> {
    const { registry } = this.#o
    const launch = row.launch as StoredLaunch
    if (this.#options.servers.some((entry) => entry.name === row.name)) return
    if (launch.source === 'file') {
      await registry.remove(row.id, 'REWARDOPS_SERVERS_FILE does not name it any more')
      return
    }
    if (launch.complete && this.#options.allowCalls) {
      await this.#begin(
        {
          name: row.name,
          engine: row.engine as LaunchServerInput['engine'],
          kind: row.kind,
          model: launch.model,
          url: row.url,
          command: launch.argv,
          ...(launch.cwd === null ? {} : { cwd: launch.cwd }),
          env: {},
          weight: row.weight,
          maxInFlight: row.max_in_flight,
          rpm: row.rpm,
          tpm: row.tpm,
          apiKey: row.api_key,
          tags: row.tags,
          chatTemplate: row.chat_template,
          selfTestOverride: row.self_test_override,
        },
        'call',
      )
      return
    }
    await registry.transition(row.id, {
      to: 'unreachable',
      cause: launch.complete
        ? 'its process ended with the service, and REWARDOPS_ALLOW_LAUNCH is not set'
        : 'its process ended with the service, and its secrets are not kept: launch it again',
    })
  }

  async #begin(input: LaunchServerInput, source: StoredLaunch['source']): Promise<number> {
    const { registry, queue } = this.#o
    await this.end(input.name)
    const secrets = secretsOf(input)
    const argv = input.command.map((word) => maskSecrets(word, secrets))
    const launch: StoredLaunch = {
      argv,
      cwd: input.cwd ?? null,
      source,
      model: input.model ?? null,
      complete:
        Object.keys(input.env).length === 0 && argv.every((word, i) => word === input.command[i]),
    }
    const known = await registry.find({ name: input.name })
    // Until it tells its model, its own name stands for it; no batch finds a pool of that.
    const model = input.model ?? known?.model ?? input.name
    const pool = input.model == null ? null : poolOfModel(model)
    if (pool !== null) await queue.ensure(pool)
    const id = await registry.save(input.name, {
      wishes: {
        url: urlOf(input),
        engine: input.engine,
        kind: input.kind,
        model,
        weight: input.weight,
        maxInFlight: input.maxInFlight ?? null,
        rpm: input.rpm ?? null,
        tpm: input.tpm ?? null,
        apiKey: input.apiKey ?? null,
        tags: input.tags,
        chatTemplate: readTemplate(input, null),
        selfTestOverride: input.selfTestOverride,
      },
      facts: null,
      launch,
      selfTest: null,
      state: 'registering',
      cause: 'its process is being started',
      evidence: { program: argv[0] as string, source },
      pool,
    })
    const supervised: Supervised = {
      id,
      input,
      process: null,
      timer: undefined,
      failures: 0,
      stopping: false,
    }
    this.#running.set(input.name, supervised)
    this.#spawn(supervised)
    return id
  }

  #spawn(supervised: Supervised): void {
    if (supervised.stopping || this.#stopping) return
    const { input } = supervised
    const inherited = Object.entries(this.#options.env).filter(([key]) => !OURS.test(key))
    const process = new LaunchedProcess(this.#folder, {
      name: input.name,
      argv: input.command,
      cwd: input.cwd,
      env: { ...Object.fromEntries(inherited), ...input.env } as NodeJS.ProcessEnv,
      secrets: secretsOf(input),
    })
    supervised.process = process
    void process.ended
      .then((end) => this.#ended(supervised, end))
      .catch((error: Error) => {
        this.#o.log.warn(
          { err: error.message, server: input.name },
          'end of a launched server not noted',
        )
      })
  }

  async #ended(supervised: Supervised, end: LaunchEnd): Promise<void> {
    supervised.process = null
    if (supervised.stopping || this.#stopping) return
    supervised.failures = end.livedMs > STEADY_MS ? 0 : supervised.failures + 1
    const waitMs = Math.min(
      this.#o.timings.restartAtMostMs,
      1_000 * 2 ** Math.max(0, supervised.failures - 1),
    )
    supervised.timer = setTimeout(() => this.#spawn(supervised), waitMs)
    const how = end.error ?? `ended with ${end.signal ?? `code ${end.code}`}`
    const cause = `its process ${how}; started again in ${waitMs / 1_000} s`
    const evidence = {
      exitCode: end.code,
      signal: end.signal,
      livedMs: end.livedMs,
      lastLines: end.lastLines,
    }
    const { registry, log } = this.#o
    log.warn(
      { server: supervised.input.name, command: supervised.input.command[0], how },
      'launched server ended',
    )
    const before = await registry.transition(supervised.id, { to: 'registering', cause, evidence })
    if (before === null) {
      const event = {
        kind: 'process',
        from: 'registering',
        to: 'registering',
        cause,
        evidence,
      } as const
      await registry.note(supervised.id, event)
      await registry.explain(supervised.id, 'registering', cause)
    }
  }
}

/** Where a launched server will answer. */
function urlOf(input: LaunchServerInput): string {
  const url = input.url ?? `http://127.0.0.1:${input.port}`
  const checked = checkServerUrl(url)
  return checked.ok ? checked.url : url
}

function secretsOf(input: LaunchServerInput): string[] {
  return [...(input.apiKey == null ? [] : [input.apiKey]), ...Object.values(input.env)]
}
