import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { SHARED_SECRETS_KEY } from '../service/service.ts'
import { DATABASE_STATE, ENDED_SAMPLES } from './database-state.ts'
import { type DatabaseState, HistoryFile, readEvents } from './history.ts'
import { askAt, PostgresCluster, tail } from './postgres-cluster.ts'
import {
  findProcesses,
  freePort,
  GENERATION,
  inspect,
  launch,
  MARK,
  poll,
  type Running,
  signal,
} from './processes.ts'
import type { Setup } from './setups.ts'
import type { SourceTree } from './source-tree.ts'
import { TcpProxy } from './tcp-proxy.ts'
import { MODEL, type Workload } from './workload.ts'

const HERE = fileURLToPath(new URL('.', import.meta.url))
/** Time limit for a start on a busy machine, including the recovery of Postgres and the start of two workers. */
const START_MS = 60_000
/** Delay before the harness restarts a process that ended although no fault stopped it, as a service manager would. */
const RESTART_MS = 1_000
/** The entry file of every worker. Worker faults find workers by this path in the command line. */
const WORKER_ENTRY = 'server/worker/start.ts'
const FAKETIME = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`

/** Whether this machine supports clock steps. */
export const hasFaketime = existsSync(FAKETIME)
export const hasPgBouncer = existsSync('/usr/sbin/pgbouncer')

export interface Managed {
  name: string
  running: Running | null
  /** Whether a fault keeps the process down, so that it is not restarted automatically. */
  isHeld: boolean
  /** Whether the process was healthy at any time since its last start. */
  isUp: boolean
  generation: number
  start(): Running
}

export interface ServerPart extends Managed {
  port: number
  /** Link from the trainer. */
  link: TcpProxy
  /** Link to Postgres, or null if Postgres is embedded. */
  databaseLink: TcpProxy | null
  dataDir: string
}

const living = new Set<Stack>()
process.on('exit', () => {
  for (const stack of living) {
    stack.killNow()
    stack.unmount()
  }
})

export class Stack {
  readonly setup: Setup
  readonly folder: string
  readonly mark: string
  readonly history: HistoryFile
  readonly servers: ServerPart[] = []
  readonly workers: (Managed & { databaseLink: TcpProxy; clockFile: string | null })[] = []
  readonly models: (Managed & { link: TcpProxy })[] = []
  trainer: Managed | null = null
  /** How many times slower the machine is than an idle one. */
  slowness = 1
  cluster: PostgresCluster | null = null
  standby: PostgresCluster | null = null
  /** Pending checks, which the episode awaits before it ends. */
  readonly watches: Promise<void>[] = []
  readonly #tree: SourceTree
  readonly #workload: Workload
  readonly #seed: number
  readonly #links: TcpProxy[] = []
  #pooler: Running | null = null
  #disk: string | null = null
  #isEnding = false

  constructor(o: { setup: Setup; tree: SourceTree; workload: Workload; seed: number }) {
    this.setup = o.setup
    this.#tree = o.tree
    this.#workload = o.workload
    this.#seed = o.seed
    this.folder = mkdtempSync(join(tmpdir(), `chaos-${o.seed}-`))
    // Postgres runs as another user if the harness runs as root.
    execFileSync('chmod', ['755', this.folder])
    this.mark = `${process.pid}-${o.seed}-${Date.now()}`
    this.history = new HistoryFile(join(this.folder, 'harness.jsonl'))
    living.add(this)
  }

  /**
   * Starts all processes except the trainer and registers the reward model. Returns the first server's start time, ms.
   * @throws when a process does not start
   */
  async start(): Promise<number> {
    const { setup } = this
    if (setup.database === 'own') await this.#startDatabase()
    for (let k = 0; k < setup.models; k++) await this.#addModel(k)
    for (let k = 0; k < setup.servers; k++) await this.#addServer(k)
    const beganAt = performance.now()
    const [tookMs] = await Promise.all(
      this.servers.map((server) =>
        this.#firstStart(server).then(() => performance.now() - beganAt),
      ),
    )
    for (let k = 0; k < setup.extraWorkers; k++) await this.#addWorker(k)
    for (const k of this.models.keys()) await this.#register(k)
    return tookMs as number
  }

  /** The database's URL for the harness, without proxies; null while the embedded Postgres is down. */
  databaseUrl(): string | null {
    if (this.cluster !== null) return this.cluster.url()
    const { dataDir } = this.servers[0]!
    const file = join(dataDir, 'postgres/postmaster.pid')
    if (!existsSync(file)) return null
    const socket = readFileSync(file, 'utf8').split('\n')[4] ?? ''
    // Earlier versions of the product have no passwords.
    const passwords = join(dataDir, 'postgres.passwords')
    const password = existsSync(passwords)
      ? `:${JSON.parse(readFileSync(passwords, 'utf8')).superuser}`
      : ''
    return `postgresql://rewardops${password}@localhost/rewardops?host=${encodeURIComponent(socket)}`
  }

  get postgresPid(): number | null {
    if (this.cluster !== null) return this.cluster.pid
    const file = join(this.servers[0]!.dataDir, 'postgres/postmaster.pid')
    if (!existsSync(file)) return null
    const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
    return inspect(pid) === null ? null : pid
  }

  workerPids(): number[] {
    return findProcesses(MARK, this.mark, null)
      .filter(({ command }) => command.includes(WORKER_ENTRY))
      .map(({ pid }) => pid)
  }

  async endedSamples(): Promise<{ ended: number; open: number } | null> {
    const url = this.databaseUrl()
    if (url === null) return null
    const rows = await askAt<{ ended: number; open: number }>(url, ENDED_SAMPLES).catch(() => [])
    return rows[0] ?? null
  }

  async databaseState(): Promise<DatabaseState | null> {
    const url = this.databaseUrl()
    if (url === null) return null
    const [row] = await askAt<{ state: DatabaseState }>(url, DATABASE_STATE)
    return row?.state ?? null
  }

  /** Whether a server reports that it accepts batches; if so, sets `isUp`. */
  async isHealthy(server: ServerPart): Promise<boolean> {
    const isHealthy = (await this.get(server, '/healthz')) === 200
    if (isHealthy) server.isUp = true
    return isHealthy
  }

  /** The status of a GET that bypasses the trainer's link; 0 if there is no answer. */
  async get(server: ServerPart, path: string): Promise<number> {
    try {
      const { statusCode, body } = await request(`http://127.0.0.1:${server.port}${path}`, {
        signal: AbortSignal.timeout(1_500),
      })
      await body.dump()
      return statusCode
    } catch {
      return 0
    }
  }

  startTrainer(): void {
    const urls = this.servers.map(({ link }) => `http://127.0.0.1:${link.port}`)
    const trainer = this.#managed('trainer', () =>
      launch({
        command: process.execPath,
        args: [
          join(HERE, 'trainer-process.ts'),
          String(this.#seed),
          join(this.folder, 'trainer.jsonl'),
          ...urls,
        ],
        log: join(this.folder, 'trainer.out'),
        env: { [MARK]: this.mark },
      }),
    )
    this.trainer = trainer
    this.spawn(trainer)
  }

  hasAccepted(): boolean {
    return readEvents(join(this.folder, 'trainer.jsonl')).some(
      (event) => event.e === 'answer' && event.op === 'batches.submit' && event.status === 200,
    )
  }

  /** Starts a process and restarts it when it ends by itself. */
  spawn(part: Managed): void {
    // If two faults stopped the process, the fault that healed first has already started it.
    if (part.running !== null) return
    part.generation++
    part.isHeld = false
    part.isUp = false
    const startedAt = Date.now()
    const running = part.start()
    part.running = running
    void running.ended.then(({ code, signal: name }) => {
      this.history.add({
        e: 'exit',
        at: Date.now(),
        who: part.name,
        code,
        signal: name,
        wasUp: part.isUp,
        ageMs: Date.now() - startedAt,
      })
      if (part.running === running) part.running = null
      const isDone = part === this.trainer && code === 0
      if (this.#isEnding || part.isHeld || isDone) return
      setTimeout(() => {
        if (!this.#isEnding && !part.isHeld && part.running === null) this.spawn(part)
      }, RESTART_MS)
    })
  }

  async down(part: Managed, name: NodeJS.Signals): Promise<void> {
    part.isHeld = true
    const running = part.running
    if (running === null) return
    signal(running.pid, name)
    await running.ended
  }

  async fillDisk(isFull: boolean): Promise<void> {
    const file = join(this.#disk as string, 'filler')
    if (!isFull) return rmSync(file, { force: true })
    // dd is expected to fail when the disk is full.
    try {
      execFileSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=64k'], { stdio: 'ignore' })
    } catch {}
  }

  async failOver(): Promise<void> {
    const { standby } = this
    // After a concurrent failover, no standby is left.
    if (standby === null) return
    this.standby = null
    await standby.ask('select pg_promote(true, 20)')
    await standby.ask(`alter system set synchronous_standby_names = ''`)
    await standby.ask('select pg_reload_conf()')
    this.cluster = standby
    for (const link of this.databaseLinks()) {
      link.targetPort = standby.port
      link.cut()
    }
  }

  databaseLinks(): TcpProxy[] {
    const links = [...this.servers, ...this.workers].map(({ databaseLink }) => databaseLink)
    return links.filter((link) => link !== null)
  }

  async stop(): Promise<void> {
    this.#isEnding = true
    const parts = [...this.workers, ...this.servers]
    for (const part of parts) if (part.running) signal(part.running.pid, 'SIGTERM')
    await poll(() => parts.every((part) => part.running === null), 20_000 * this.slowness)
    const own = new Set([this.trainer, ...this.models].map((part) => part?.running?.pid))
    const isForeign = ({ pid, command }: { pid: number; command: string }) =>
      !own.has(pid) &&
      // A process that is ending has no command line.
      command !== '' &&
      !command.includes('pgbouncer') &&
      !(this.setup.database === 'own' && command.includes('postgres'))
    const left = () => findProcesses(MARK, this.mark, this.folder).filter(isForeign)
    // Postgres ends after its last checkpoint is on disk, and a server ends after its Postgres.
    const flushes = () => left().some(({ command }) => command.includes('shutdown checkpoint'))
    await poll(() => !flushes(), 120_000, 500)
    await poll(() => left().length === 0, 10_000 * this.slowness, 200)
    const processes = left().map(
      ({ pid, state, command }) => `${pid} ${state} ${command.slice(0, 120)}`,
    )
    this.history.add({ e: 'leftover', at: Date.now(), after: 'the end', processes })
  }

  killNow(): number {
    const left = findProcesses(MARK, this.mark, this.folder)
    for (const { pid } of left) signal(pid, 'SIGKILL')
    return left.length
  }

  async destroy(): Promise<void> {
    this.#isEnding = true
    for (let round = 0; round < 50 && this.killNow() > 0; round++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    living.delete(this)
    await Promise.all(this.#links.map((link) => link.close().catch(() => {})))
    this.unmount()
  }

  unmount(): void {
    if (this.#disk !== null) execFileSync('umount', ['-l', this.#disk])
    this.#disk = null
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Records the processes that one start of a server left behind. Call it 10 s after the server's kill. */
  noteLeftover(server: ServerPart, generation: number): void {
    const found = findProcesses(GENERATION, this.#generationOf(server, generation), null)
    // A stopped process cannot end before it is continued.
    const processes = found
      .filter(({ state }) => state !== 'T')
      .map(({ pid, command }) => `${pid} ${command.slice(0, 120)}`)
    const after = `SIGKILL of ${server.name} (start ${generation})`
    this.history.add({ e: 'leftover', at: Date.now(), after, processes })
  }

  #generationOf(server: Managed, generation: number): string {
    return `${this.mark}/${server.name}/${generation}`
  }

  #managed(name: string, start: () => Running): Managed {
    return { name, running: null, isHeld: false, isUp: false, generation: 0, start }
  }

  async #link(targetPort: number): Promise<TcpProxy> {
    const link = await TcpProxy.start(targetPort)
    this.#links.push(link)
    return link
  }

  async #startDatabase(): Promise<void> {
    const { setup, folder, mark } = this
    let dataFolder = join(folder, 'postgres')
    if (setup.diskMb !== null) {
      this.#disk = join(folder, 'disk')
      mkdirSync(this.#disk)
      execFileSync('mount', [
        '-t',
        'tmpfs',
        '-o',
        `size=${setup.diskMb}m,mode=755`,
        'tmpfs',
        this.#disk,
      ])
      dataFolder = join(this.#disk, 'postgres')
    }
    const log = (name: string) => join(folder, `${name}.out`)
    const cluster = await PostgresCluster.copy(
      this.#tree.template,
      dataFolder,
      mark,
      log('postgres'),
    )
    this.cluster = cluster
    if (setup.hasStandby) {
      // A standby cannot follow WAL of level `minimal`. This start writes a checkpoint at level `replica`.
      await cluster.start()
      await cluster.end('SIGINT')
      this.standby = await cluster.standby(join(folder, 'standby'), log('standby'))
    }
    await cluster.start(setup.hasStandby ? { synchronous_standby_names: '*' } : {})
    await this.standby?.start({
      primary_conninfo: `host=127.0.0.1 port=${cluster.port} user=rewardops`,
      // After a restart of the primary, writes wait until the standby has reconnected. The default interval is 5 s.
      wal_retrieve_retry_interval: '200ms',
    })
    if (setup.pooler === 'pgbouncer') await this.#startPooler(cluster)
  }

  #poolerPort = 0
  async #startPooler(cluster: PostgresCluster): Promise<void> {
    if (!hasPgBouncer) throw new Error('PgBouncer is not installed')
    this.#poolerPort = await freePort()
    const file = join(this.folder, 'pgbouncer.ini')
    const users = join(this.folder, 'users.txt')
    writeFileSync(users, '"rewardops" ""\n')
    writeFileSync(
      file,
      `[databases]\n* = host=127.0.0.1 port=${cluster.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n` +
        `listen_port = ${this.#poolerPort}\nauth_type = trust\nauth_file = ${users}\npool_mode = session\n` +
        'max_client_conn = 300\ndefault_pool_size = 150\nunix_socket_dir =\n',
    )
    const asNobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
    this.#pooler = launch({
      command: '/usr/sbin/pgbouncer',
      args: [file],
      log: join(this.folder, 'pgbouncer.out'),
      env: { [MARK]: this.mark },
      ...asNobody,
    })
    if (!this.#pooler.isAlive) throw new Error('PgBouncer did not start')
  }

  async #addModel(k: number): Promise<void> {
    const port = await freePort()
    const link = await this.#link(port)
    const [min, max] = this.#workload.latencyMs
    const part = this.#managed(`rm-${k}`, () =>
      launch({
        command: process.execPath,
        args: [
          join(HERE, 'reward-model-process.ts'),
          ...[
            String(port),
            String(k),
            join(this.folder, `rm-${k}.jsonl`),
            String(min),
            String(max),
          ],
        ],
        log: join(this.folder, `rm-${k}.out`),
        env: { [MARK]: this.mark },
      }),
    )
    this.models.push(Object.assign(part, { link }))
    this.spawn(part)
    const isUp = await poll(() => part.running?.said.includes('listening') ?? false, START_MS)
    if (isUp === null) throw new Error('the reward model did not start')
  }

  async #addServer(k: number): Promise<void> {
    const port = await freePort()
    const link = await this.#link(port)
    const databasePort = this.#poolerPort || this.cluster?.port
    const databaseLink = databasePort === undefined ? null : await this.#link(databasePort)
    const dataDir = join(this.folder, `data-${k}`)
    mkdirSync(dataDir)
    if (databaseLink === null) this.#tree.copyTemplate(join(dataDir, 'postgres'))
    const part = this.#managed(`server-${k}`, () => this.#launchServer(server))
    const server: ServerPart = Object.assign(part, { port, link, databaseLink, dataDir })
    this.servers.push(server)
  }

  #launchServer(server: ServerPart): Running {
    const { databaseLink } = server
    return launch({
      command: process.execPath,
      args: ['server/main.ts'],
      cwd: this.#tree.root,
      log: join(this.folder, `${server.name}.log`),
      env: {
        PORT: String(server.port),
        REWARDOPS_DATA_DIR: server.dataDir,
        REWARDOPS_PAGES: '0',
        REWARDOPS_WORKERS: String(this.setup.localWorkers),
        NODE_ENV: 'production',
        [MARK]: this.mark,
        [GENERATION]: this.#generationOf(server, server.generation),
        ...(databaseLink === null
          ? {}
          : { DATABASE_URL: (this.cluster as PostgresCluster).url(databaseLink.port) }),
        // The template's database was created with this key and needs it.
        ...SHARED_SECRETS_KEY,
      },
    })
  }

  async #firstStart(server: ServerPart): Promise<void> {
    this.spawn(server)
    const start = await poll(async () => {
      if (server.generation > 3) return 'ended'
      return (await this.isHealthy(server)) ? 'up' : null
    }, START_MS)
    if (start === 'up') return
    throw new Error(
      `${server.name} did not start:\n${tail(join(this.folder, `${server.name}.log`))}`,
    )
  }

  async #addWorker(k: number): Promise<void> {
    const databaseLink = await this.#link(
      this.#poolerPort || (this.cluster as PostgresCluster).port,
    )
    const clockFile = hasFaketime ? join(this.folder, `clock-${k}`) : null
    if (clockFile !== null) writeFileSync(clockFile, '+0')
    const part = this.#managed(`worker-${k}`, () =>
      launch({
        command: process.execPath,
        args: [WORKER_ENTRY],
        cwd: this.#tree.root,
        log: join(this.folder, `worker-${k}.log`),
        env: {
          DATABASE_URL: (this.cluster as PostgresCluster).url(databaseLink.port),
          ...SHARED_SECRETS_KEY,
          REWARDOPS_DATA_DIR: join(this.folder, `worker-data-${k}`),
          NODE_ENV: 'production',
          [MARK]: this.mark,
          ...(clockFile === null
            ? {}
            : {
                LD_PRELOAD: FAKETIME,
                FAKETIME_TIMESTAMP_FILE: clockFile,
                FAKETIME_NO_CACHE: '1',
                FAKETIME_DONT_FAKE_MONOTONIC: '1',
              }),
        },
      }),
    )
    this.workers.push(Object.assign(part, { databaseLink, clockFile }))
    this.spawn(part)
  }

  async #register(k: number): Promise<void> {
    const { link } = this.models[k]!
    const body = JSON.stringify({
      name: `rm-${k}`,
      url: `http://127.0.0.1:${link.port}`,
      engine: 'tei',
      model: MODEL,
      maxInFlight: this.#workload.maxInFlight,
      // Scores are hashes, so the result of the self-test is random.
      selfTestOverride: true,
    })
    const url = `http://127.0.0.1:${this.servers[0]!.port}/api/trpc/servers.register`
    const headers = { 'content-type': 'application/json' }
    const answer = await request(url, { method: 'POST', headers, body })
    const text = await answer.body.text()
    if (answer.statusCode !== 200) throw new Error(`servers.register: ${text.slice(0, 500)}`)
  }
}
