import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { Agent } from 'undici'
import { throughOutage } from '../../server/store/database.ts'
import { runningEmbeddedUrl } from '../../server/store/postgres/embedded.ts'
import { inspectProcess } from '../../server/store/postgres/processes.ts'
import { EXIT_WITH_PARENT } from '../processes/child.ts'
import {
  type Api,
  createApi,
  type RawAnswer,
  type RawRequest,
  rawRequest,
} from '../processes/trpc-call.ts'
import { copyClusterTemplate } from './cluster-template.ts'
import { ServiceLog } from './service-log.ts'
import { waitFor } from './wait-for.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const scriptOf = (tree: string) => join(tree, 'server/start.ts')
/** Time limit of a start, which takes 3 to 6 s, and many times that on a busy machine. */
const START_MS = 60_000
/** The secrets key, which all processes of a shared database need. */
export const SHARED_SECRETS_KEY = { REWARDOPS_SECRETS_KEY: '5e'.repeat(32) }
/** Maximum time of a drain after SIGTERM. */
export const STOP_MS = 8_000

export interface Pids {
  server: number
  postgres: number | null
  workers: number[]
}

export type Part = 'server' | 'postgres' | 'worker' | 'all'

export interface ServiceOptions {
  /**
   * Environment variables in addition to PORT and REWARDOPS_DATA_DIR; REWARDOPS variables of this process are not
   * inherited.
   */
  env?: Record<string, string>
  /** Headers of every call, unless the call overrides them. */
  headers?: Record<string, string>
  /** Root of the source tree to run, for another version of the service; default: this tree. */
  tree?: string
}

const living = new Set<Service>()
process.on('exit', () => {
  for (const service of living) service.killNow()
})

/**
 * A service as a trainer sees it: a server process with embedded Postgres and workers, with its own data folder and port.
 * start ─▶ running ──kill9(server|all)──▶ killed ──restart──▶ running ──stop──▶ ended
 */
export class Service {
  url = ''
  readonly dataDir: string
  readonly log = new ServiceLog()
  /** A typed client of the API. Input that the types refuse is sent with `post`. */
  readonly api: Api
  readonly #options: ServiceOptions
  readonly #agent = new Agent({ headersTimeout: 120_000, bodyTimeout: 120_000 })
  #child: ChildProcess | null = null
  #pids: Pids | null = null
  #pool: pg.Pool | null = null
  #socketDir: string | null = null

  private constructor(options: ServiceOptions) {
    this.#options = options
    this.api = this.apiWith({})
    this.dataDir = mkdtempSync(join(tmpdir(), 'rewardops-service-'))
    if (options.env?.DATABASE_URL === undefined) copyClusterTemplate(this.dataDir)
  }

  /** Starts a service and waits until it accepts batches. @throws with the end of its log when it does not start */
  static async start(options: ServiceOptions = {}): Promise<Service> {
    const service = new Service(options)
    living.add(service)
    try {
      await service.#spawn()
    } catch (error) {
      await service.destroy()
      throw error
    }
    return service
  }

  async restart(): Promise<void> {
    if (this.#child) throw new Error('the service is still running')
    await this.#spawn()
  }

  async #spawn(): Promise<void> {
    const script = scriptOf(this.#options.tree ?? ROOT)
    const child = spawn(process.execPath, [...EXIT_WITH_PARENT.options, script], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: environment({
        ...EXIT_WITH_PARENT.env,
        PORT: '0',
        REWARDOPS_DATA_DIR: this.dataDir,
        NODE_ENV: 'production',
        REWARDOPS_PAGES: '0',
        ...this.#secretsKey(),
        ...this.#options.env,
      }),
    })
    this.#child = child
    this.log.read(child.stderr!)
    let said = ''
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const address = await waitFor(
      'the URL of the service',
      () => (hasEnded(child) ? 'ended' : / is on (http:\/\/\S+)/.exec(said)?.[1]),
      START_MS,
    )
    if (address === 'ended') {
      await waitFor('the end of its log', () => !this.log.isOpen)
      throw new Error(`the service ended while starting:\n${this.log.tail()}`)
    }
    this.url = address
    const wanted = Number(this.#options.env?.REWARDOPS_WORKERS ?? 2)
    await waitFor(
      'a healthy service with all its workers',
      async () => {
        const { status, json } = await this.raw('/healthz')
        if (status !== 200) return false
        this.#pids = (json as { pids: Pids }).pids
        const { workers } = this.#pids
        return workers.length >= wanted && (await this.#liveWorkers(workers)) >= wanted
      },
      START_MS,
    )
  }

  /**
   * Counts ready workers. A worker is ready when its database row exists; before that, its process may still be
   * loading.
   */
  async #liveWorkers(pids: number[]): Promise<number> {
    const [row] = await this.sql<{ n: number }>(
      `select count(*)::int as n from process where role = 'worker' and state = 'alive' and pid = any($1::int[])`,
      [pids],
    )
    return row!.n
  }

  apiWith(headers: Record<string, string>): Api {
    return createApi(() => this.url, { ...this.#options.headers, ...headers }, this.#agent)
  }

  post(
    path: string,
    body: string | Buffer,
    headers: Record<string, string> = {},
  ): Promise<RawAnswer> {
    return this.raw(`/api/trpc/${path}`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    })
  }

  raw(path: string, options: RawRequest = {}): Promise<RawAnswer> {
    return rawRequest(
      `${this.url}${path}`,
      { ...options, headers: { ...this.#options.headers, ...options.headers } },
      this.#agent,
    )
  }

  async pids(): Promise<Pids> {
    const { json } = await this.raw('/healthz')
    this.#pids = (json as { pids: Pids }).pids
    return this.#pids
  }

  /** Queries the service's database, the embedded one as its superuser; waits while it is down. */
  sql<T>(text: string, values: unknown[] = []): Promise<T[]> {
    return throughOutage(async () => (await this.#database().query(text, values)).rows as T[], {
      forMs: 20_000,
    })
  }

  #database(): pg.Pool {
    if (!this.#pool) {
      const own = this.#options.env?.DATABASE_URL
      const url = own ?? runningEmbeddedUrl(this.dataDir, 'superuser')
      if (!url) throw new Error('Connection terminated: the embedded Postgres does not run')
      if (own === undefined) this.#socketDir = new URL(url).searchParams.get('host')
      this.#pool = new pg.Pool({ connectionString: url, max: 2, application_name: 'test' })
      this.#pool.on('error', () => {})
    }
    return this.#pool
  }

  /** Sends SIGKILL to a part of the service. Resolves when its processes are gone, before the service has recovered. */
  async kill9(part: Part): Promise<Pids> {
    const pids = await this.pids()
    const { server, postgres, workers } = pids
    if (postgres === null && part === 'postgres') throw new Error('Postgres is not running')
    const byPart: Record<Part, (number | null)[]> = {
      server: [server],
      postgres: [postgres],
      worker: [workers[0] as number],
      all: [server, postgres, ...workers],
    }
    const victims = byPart[part].filter((pid) => pid !== null)
    for (const pid of victims) process.kill(pid, 'SIGKILL')
    if (victims.includes(server)) {
      await this.#childEnded()
      await this.#forget()
    }
    await waitFor('the end of the killed processes', () => victims.every((pid) => !isAlive(pid)))
    return pids
  }

  async healthy(): Promise<Pids> {
    const wanted = Number(this.#options.env?.REWARDOPS_WORKERS ?? 2)
    return waitFor(
      'a healthy service',
      async () => {
        const { status } = await this.raw('/healthz')
        const pids = await this.pids()
        return (
          status === 200 &&
          (pids.postgres !== null || this.#options.env?.DATABASE_URL !== undefined) &&
          pids.workers.length >= wanted &&
          (await this.#liveWorkers(pids.workers)) >= wanted &&
          pids
        )
      },
      START_MS,
    )
  }

  async stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null; tookMs: number }> {
    const child = this.#child
    if (!child) throw new Error('the service is not running')
    const begun = performance.now()
    child.kill('SIGTERM')
    const patience = setTimeout(() => this.killNow(), 2 * STOP_MS)
    const { code, signal } = await this.#childEnded()
    clearTimeout(patience)
    const tookMs = performance.now() - begun
    await this.#forget()
    return { code, signal, tookMs }
  }

  async destroy(): Promise<void> {
    const child = this.#child
    this.killNow()
    if (child) await this.#childEnded()
    await this.#forget()
    await this.#agent.destroy()
    living.delete(this)
    // After the server process is killed, Postgres takes a moment to end and may still write to the folder.
    await waitFor('an empty data folder', () => {
      rmSync(this.dataDir, { recursive: true, force: true })
      if (this.#socketDir) rmSync(dirname(this.#socketDir), { recursive: true, force: true })
      return true
    })
  }

  killNow(): void {
    for (const pid of [this.#pids?.server, ...(this.#pids?.workers ?? []), this.#pids?.postgres]) {
      if (pid && this.#child && !hasEnded(this.#child)) tryKill(pid)
    }
    this.#child?.kill('SIGKILL')
  }

  async #childEnded(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const child = this.#child as ChildProcess
    if (!hasEnded(child)) await once(child, 'exit')
    return { code: child.exitCode, signal: child.signalCode }
  }

  /** The secrets key of a shared database. Versions before schema version 4 refuse the setting. */
  #secretsKey(): Record<string, string> {
    const { env, tree } = this.#options
    return env?.DATABASE_URL === undefined || tree !== undefined ? {} : SHARED_SECRETS_KEY
  }

  async #forget(): Promise<void> {
    this.#child = null
    this.#pids = null
    const pool = this.#pool
    this.#pool = null
    await pool?.end().catch(() => {})
  }
}

export function environment(settings: Record<string, string>): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, LANG, NODE_COMPILE_CACHE } = process.env
  return Object.fromEntries(
    Object.entries({ PATH, HOME, TMPDIR, LANG, NODE_COMPILE_CACHE, ...settings }).filter(
      ([, v]) => v !== undefined,
    ),
  ) as NodeJS.ProcessEnv
}

/**
 * Runs `server/start.ts` until it exits, to test settings that it refuses. `files` are the names in its data folder
 * after the exit.
 */
export async function runToEnd(
  settings: Record<string, string>,
): Promise<{ code: number | null; stderr: string; files: string[] }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rewardops-service-'))
  try {
    const child = spawn(process.execPath, [scriptOf(ROOT)], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: environment({ PORT: '0', REWARDOPS_DATA_DIR: dataDir, ...settings }),
      timeout: START_MS,
    })
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, stderr, files: readdirSync(dataDir) }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

/** Whether a process runs; a zombie does not count. */
function isAlive(pid: number): boolean {
  return inspectProcess(pid)?.running === true
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already ended.
  }
}
