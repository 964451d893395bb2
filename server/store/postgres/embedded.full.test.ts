import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { runWithFewFiles } from '../../../testkit/processes/child.ts'
import { createLogger } from '../../log.ts'
import { binariesAt, packagedBinaries } from './binaries.ts'
import { ensureCluster, isPostmasterOf, readPostmaster } from './cluster.ts'
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  runningEmbeddedUrl,
  startEmbeddedPostgres,
} from './embedded.ts'
import { inspectProcess } from './processes.ts'

const log = createLogger('silent', 'test')
const isRoot = process.getuid?.() === 0
const onLinux = process.platform === 'linux'

/** A new cluster. Tests copy it, because a copy takes 0.1 s and a new cluster 0.5 s. */
let made: string
const cleanups: (() => unknown)[] = []

beforeAll(async () => {
  made = folder()
  await (await startEmbeddedPostgres({ dataDir: made, log })).stop()
  cleanups.length = 0
})

afterAll(() => rmSync(made, { recursive: true, force: true }))

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function folder(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'embedded-')))
  cleanups.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function dataFolder(path = folder()): string {
  cpSync(join(made, 'postgres'), join(path, 'postgres'), { recursive: true })
  chmodSync(join(path, 'postgres'), 0o700)
  return path
}

async function start(
  dataDir: string,
  options: Partial<EmbeddedPostgresOptions> = {},
): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, log, waitForOwnerMs: 0, ...options })
  cleanups.push(() => postgres.stop())
  return postgres
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

interface Service {
  node: ChildProcess
  /** Process ids of the shell between Node and Postgres, and of its child, which watches the pipe from Node. */
  keepers: number[]
  postmaster: number
  url: string
}

/** A separate process with an embedded Postgres, to be killed. */
async function service(dataDir: string): Promise<Service> {
  const script = `
    import { startEmbeddedPostgres } from ${JSON.stringify(join(import.meta.dirname, 'embedded.ts'))}
    import { createLogger } from ${JSON.stringify(join(import.meta.dirname, '../../log.ts'))}
    const postgres = await startEmbeddedPostgres({ dataDir: process.argv[1], log: createLogger('silent', '') })
    console.log(JSON.stringify({ postmaster: postgres.pid, url: postgres.adminUrl('postgres') }))
    setInterval(() => {}, 1000)`
  const args = ['--input-type=module-typescript', '--eval', script, dataDir]
  const node = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  cleanups.push(async () => {
    if (node.exitCode === null && node.signalCode === null) {
      node.kill('SIGKILL')
      await once(node, 'exit')
    }
  })
  const line = await new Promise<string>((resolve, reject) => {
    createInterface(node.stdout!).once('line', resolve)
    node.once('exit', (code, signal) => reject(new Error(`service ended: ${code ?? signal}`)))
  })
  const said = JSON.parse(line) as { postmaster: number; url: string }
  const keeper = parentOf(said.postmaster)
  const keepers = [keeper, ...childrenOf(keeper).filter((pid) => pid !== said.postmaster)]
  return { node, keepers, ...said }
}

function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((other) => other > 0 && inspectProcess(other) && parentOf(other) === pid)
}

async function kill(victims: Service, ...pids: number[]): Promise<void> {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      // The process may have ended already, because a keeper ends with its Postgres.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  if (pids.includes(victims.node.pid!)) await once(victims.node, 'exit')
}

describe('without failures', () => {
  test('creates a cluster, answers, writes only below the data folder and leaves no processes', async () => {
    const dataDir = join(folder(), `deep/it's "my" dätä`)
    const postgres = await start(dataDir)
    const [row] = await query(
      postgres.adminUrl('postgres'),
      `select split_part(version(), '.', 1) as version, current_setting('listen_addresses') as tcp,
         upper('größe') as upper, current_setting('wal_level') as wal_level`,
    )
    expect(row).toEqual({
      version: 'PostgreSQL 18',
      tcp: '',
      upper: 'GRÖßE',
      wal_level: 'minimal',
    })
    expect(postgres.state).toBe('up')
    const socketDir = new URL(postgres.url()).searchParams.get('host')!
    expect(statSync(socketDir).mode & 0o777).toBe(0o700)
    expect(runningEmbeddedUrl(dataDir)).toBe(postgres.url())
    const { pid } = postgres
    await postgres.stop()
    expect(postgres.state).toBe('stopped')
    expect(postgres.pid).toBeNull()
    expect(isPostmasterOf(pid!, join(dataDir, 'postgres'))).toBe(false)
    expect(existsSync(dirname(socketDir))).toBe(false)
    expect(readdirSync(dataDir).sort()).toEqual(['postgres', 'postgres.log', 'postgres.passwords'])
    expect(runningEmbeddedUrl(dataDir)).toBeNull()
  })

  test('rows persist over restarts', async () => {
    const dataDir = dataFolder()
    const first = await start(dataDir)
    await query(first.adminUrl('postgres'), 'create table kept as select 7 as n')
    await first.stop()
    const second = await start(dataDir)
    expect(await query(second.adminUrl('postgres'), 'table kept')).toEqual([{ n: 7 }])
  })

  test('two instances with separate data folders run side by side', async () => {
    const [one, two] = await Promise.all([start(dataFolder()), start(dataFolder())])
    expect(one.url()).not.toBe(two.url())
    await Promise.all([
      query(one.adminUrl('postgres'), 'select'),
      query(two.adminUrl('postgres'), 'select'),
    ])
  })

  test('PGPORT and similar environment variables have no effect', async () => {
    const before = { ...process.env }
    cleanups.push(() => {
      delete process.env.PGPORT
      delete process.env.PGSSLMODE
      Object.assign(process.env, before)
    })
    Object.assign(process.env, { PGPORT: '1', PGSSLMODE: 'require' })
    const postgres = await start(dataFolder())
    expect(await query(postgres.adminUrl('postgres'), 'select 1 as one')).toEqual([{ one: 1 }])
  })
})

describe.runIf(onLinux)('kill -9', () => {
  test('of Postgres: it is restarted, and no committed row is lost', async () => {
    const states: string[] = []
    let exits = 0
    const postgres = await start(dataFolder(), {
      onState: (state) => states.push(state),
      onUnexpectedExit: () => {
        exits += 1
      },
    })
    const url = postgres.adminUrl('postgres')
    await query(url, 'create table kept (n int)')
    for (const n of [1, 2]) {
      const pid = postgres.pid!
      await query(url, `insert into kept values (${n})`)
      process.kill(pid, 'SIGKILL')
      await expect.poll(() => postgres.state === 'up' && postgres.pid !== pid, POLL).toBe(true)
    }
    expect(await query(url, 'table kept')).toEqual([{ n: 1 }, { n: 2 }])
    expect(states).toEqual(['down', 'up', 'down', 'up'])
    expect(exits).toBe(2)
  })

  test('of Postgres, without free file descriptors: it is restarted once some are free', async () => {
    const script = `
      import { once } from 'node:events'
      import { closeSync, openSync } from 'node:fs'
      import { ensureCluster } from ${JSON.stringify(join(import.meta.dirname, 'cluster.ts'))}
      import { startEmbeddedPostgres } from ${JSON.stringify(join(import.meta.dirname, 'embedded.ts'))}
      const dataDir = process.argv[1]
      const alive = setInterval(() => {}, 1_000)
      const ignored = () => {}
      const failed = new EventTarget()
      const error = ({ err }) => err && failed.dispatchEvent(new MessageEvent('err', { data: err.message }))
      const log = { debug: ignored, info: ignored, warn: ignored, error }
      let up
      const onState = (state) => state === 'up' && up()
      const postgres = await startEmbeddedPostgres({ dataDir, log, onState })
      const held = []
      try {
        for (;;) held.push(openSync('/dev/null'))
      } catch {}
      process.kill(postgres.pid, 'SIGKILL')
      const [{ data }] = await once(failed, 'err')
      console.log(data)
      // One descriptor is free: enough to create the new cluster's folder, but not for the pipes of initdb.
      closeSync(held.pop())
      const program = { initdb: 'initdb' }
      const runtime = { account: null, binaries: program, dataArgument: (folder) => folder }
      await ensureCluster(dataDir + '/other', runtime, log).catch((e) => console.log(e.code + ': ' + e.message))
      for (const fd of held) closeSync(fd)
      await new Promise((resolve) => { up = resolve })
      await postgres.stop()
      clearInterval(alive)`
    const node = runWithFewFiles(script, [dataFolder()])
    expect(node.stderr).toBe('')
    expect(node.stdout.trim().split('\n')).toEqual([
      'postgres could not be started: spawn /bin/sh EMFILE',
      'start_failed: initdb could not be started: spawn /bin/sh EMFILE',
    ])
    expect(node.status).toBe(0)
  })

  test('of the shell between Node and Postgres: the surviving Postgres is replaced', async () => {
    const postgres = await start(dataFolder())
    const pid = postgres.pid!
    process.kill(parentOf(pid), 'SIGKILL')
    await expect.poll(() => postgres.state === 'up' && postgres.pid !== pid, POLL).toBe(true)
    expect(inspectProcess(pid)?.running ?? false).toBe(false)
    await query(postgres.adminUrl('postgres'), 'select')
  })

  test('of Node: Postgres shuts itself down cleanly', async () => {
    const dataDir = dataFolder()
    const killed = await service(dataDir)
    await kill(killed, killed.node.pid!)
    // A clean shutdown removes postmaster.pid; a crash leaves it.
    await expect.poll(() => readPostmaster(join(dataDir, 'postgres')), POLL).toBeNull()
    await start(dataDir)
  })

  test('of Node, Postgres and the shell at once: the next start takes over', async () => {
    const dataDir = dataFolder()
    const killed = await service(dataDir)
    await query(killed.url, 'create table kept as select 7 as n')
    await kill(killed, killed.postmaster, ...killed.keepers, killed.node.pid!)
    const postgres = await start(dataDir)
    expect(await query(postgres.adminUrl('postgres'), 'table kept')).toEqual([{ n: 7 }])
  })

  test('of Node and the shell: the surviving Postgres is stopped and replaced', async () => {
    const dataDir = dataFolder()
    const killed = await service(dataDir)
    await kill(killed, ...killed.keepers, killed.node.pid!)
    expect(isPostmasterOf(killed.postmaster, join(dataDir, 'postgres'))).toBe(true)
    const postgres = await start(dataDir)
    expect(postgres.pid).not.toBe(killed.postmaster)
    expect(isPostmasterOf(killed.postmaster, join(dataDir, 'postgres'))).toBe(false)
  })

  test('during initdb: the next start runs it again', async () => {
    const dataDir = folder()
    const starting = service(dataDir).catch(() => {})
    const draft = join(dataDir, 'postgres.new')
    await expect.poll(() => existsSync(join(draft, 'PG_VERSION')), POLL).toBe(true)
    const initdb = readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && inspectProcess(pid)?.cwd === draft)
    const { pid: owner } = JSON.parse(readFileSync(join(dataDir, 'postgres.owner'), 'utf8'))
    for (const pid of [owner, ...initdb]) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    }
    await starting
    expect(existsSync(join(dataDir, 'postgres'))).toBe(false)
    await start(dataDir)
    expect(existsSync(draft)).toBe(false)
  })
})

test('a draft whose initdb is still removing its files is replaced', async () => {
  const path = folder()
  const draft = join(path, 'postgres.new')
  mkdirSync(draft)
  for (let n = 0; n < 2_000; n++) writeFileSync(join(draft, `${n}`), '')
  const removing = spawn('find', [draft, '-type', 'f', '-delete'], { stdio: 'ignore' })
  await expect.poll(() => readdirSync(draft).length, { interval: 1 }).toBeLessThan(2_000)
  const binaries = { initdb: '/bin/false', postgres: '' }
  const runtime = { account: null, binaries, dataArgument: (dir: string) => dir } as never
  const made = ensureCluster(join(path, 'postgres'), runtime, log)
  await expect(made).rejects.toThrow(/^initdb exited with 1/)
  if (removing.exitCode === null) await once(removing, 'exit')
})

describe.runIf(onLinux)('a lock whose process is not Postgres', () => {
  /** The data folder of a killed Postgres, with another pid in its lock file. */
  async function lockedBy(pid: number): Promise<string> {
    const dataDir = dataFolder()
    const killed = await service(dataDir)
    const file = join(dataDir, 'postgres/postmaster.pid')
    await kill(killed, killed.postmaster, ...killed.keepers, killed.node.pid!)
    const [, ...rest] = readFileSync(file, 'utf8').split('\n')
    writeFileSync(file, [pid, ...rest].join('\n'))
    return dataDir
  }

  test('is ignored if the pid was reused', async () => {
    await start(await lockedBy(process.pid))
  })

  test('is ignored if the process is a zombie', async () => {
    // The shell becomes `sleep`, which never reaps the shell's child, so the killed child remains a zombie.
    const parent = spawn('sh', ['-c', 'cat <&3 & echo $!; exec 3<&-; exec sleep 600'], {
      stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
    })
    cleanups.push(() => parent.kill('SIGKILL'))
    const [line] = await once(createInterface(parent.stdout!), 'line')
    await expect.poll(() => inspectProcess(parent.pid!)?.commandLine, POLL).toBe('sleep 600')
    process.kill(Number(line), 'SIGKILL')
    await expect.poll(() => inspectProcess(Number(line))?.running, POLL).toBe(false)
    await start(await lockedBy(Number(line)))
  })
})

describe('a data folder in use', () => {
  test('by a live service: refused, with its pid', async () => {
    const dataDir = dataFolder()
    const first = await start(dataDir)
    await expect(start(dataDir)).rejects.toMatchObject({
      code: 'data_folder_in_use',
      message: expect.stringContaining(`process ${process.pid} already runs a service`),
    })
    expect(await query(first.adminUrl('postgres'), 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('by a service that is stopping: the start waits', async () => {
    const dataDir = dataFolder()
    const first = await start(dataDir)
    const second = start(dataDir, { waitForOwnerMs: 30_000 })
    await first.stop()
    expect((await second).state).toBe('up')
  })

  test('by a dead service whose pid was reused: the start succeeds', async () => {
    const dataDir = dataFolder()
    const owner = { pid: process.pid, startedAt: 'in another life' }
    writeFileSync(join(dataDir, 'postgres.owner'), JSON.stringify(owner))
    await start(dataDir)
  })

  test('by other files: refused and left unchanged', async () => {
    const dataDir = folder()
    mkdirSync(join(dataDir, 'postgres'))
    writeFileSync(join(dataDir, 'postgres/thesis.tex'), '')
    await expect(start(dataDir)).rejects.toMatchObject({ code: 'data_folder_unusable' })
    expect(readdirSync(join(dataDir, 'postgres'))).toEqual(['thesis.tex'])
    expect(existsSync(join(dataDir, 'postgres.owner'))).toBe(false)
  })

  test('by another major version of Postgres: refused', async () => {
    const dataDir = folder()
    mkdirSync(join(dataDir, 'postgres'))
    writeFileSync(join(dataDir, 'postgres/PG_VERSION'), '17\n')
    await expect(start(dataDir)).rejects.toThrow(/written by Postgres 17, the embedded one is 18/)
  })
})

describe.runIf(isRoot && onLinux)('as root', () => {
  const modeOf = (path: string) => statSync(path).mode & 0o777

  function closed(): string {
    const path = folder()
    expect(modeOf(path)).toBe(0o700)
    mkdirSync(join(path, 'project'))
    return dataFolder(mkdirIn(path, 'project/.data'))
  }

  function mkdirIn(path: string, name: string): string {
    mkdirSync(join(path, name))
    return join(path, name)
  }

  test('Postgres runs as another user', async () => {
    const postgres = await start(dataFolder())
    expect(statSync(`/proc/${postgres.pid}`).uid).not.toBe(0)
  })

  test('a data folder closed to other users is opened to 0711, no further', async () => {
    const dataDir = folder()
    expect(modeOf(dataDir)).toBe(0o700)
    await start(dataDir)
    expect(modeOf(dataDir)).toBe(0o711)
  })

  test('a closed folder above the data folder stays closed, and Postgres runs', async () => {
    const dataDir = closed()
    const postgres = await start(dataDir)
    const url = postgres.adminUrl('postgres')
    await query(url, 'create table kept as select 7 as n')
    process.kill(postgres.pid!, 'SIGKILL')
    await expect.poll(() => postgres.state, POLL).toBe('down')
    await expect.poll(() => postgres.state, POLL).toBe('up')
    expect(await query(url, 'table kept')).toEqual([{ n: 7 }])
    expect(modeOf(join(dataDir, '../..'))).toBe(0o700)
  })

  test('Postgres runs with a new cluster and unreachable binaries', async () => {
    const path = folder()
    cpSync(packagedBinaries().root, join(path, 'native'), {
      recursive: true,
      verbatimSymlinks: true,
    })
    // The modes that npm leaves under umask 077.
    execFileSync('chmod', ['-R', 'go=', join(path, 'native')])
    const runtime = { packaged: binariesAt(join(path, 'native')) }
    const postgres = await start(join(path, '.data'), { runtime })
    await query(postgres.adminUrl('postgres'), 'create extension pg_trgm')
    const socketDir = new URL(postgres.url()).searchParams.get('host')!
    expect(existsSync(join(socketDir, '../native/bin/postgres'))).toBe(true)
    await postgres.stop()
    expect(existsSync(dirname(socketDir))).toBe(false)
  })

  test('the error names every attempt if no copy can run either', async () => {
    const path = folder()
    // The copy contains no binaries, which has the effect of a temporary folder mounted noexec.
    writeFileSync(join(path, 'pg-symlinks.json'), '[]')
    const runtime = { packaged: binariesAt(path), temporary: ['/tmp', '/var/tmp'] }
    const failure = start(join(path, '.data'), { runtime })
    await expect(failure).rejects.toMatchObject({ code: 'start_failed' })
    await expect(failure).rejects.toThrow(
      /cannot be run here as "\w+":(\n {2}\S+bin\/postgres: .+){3}\n.*set DATABASE_URL/,
    )
    expect(readdirSync(join(path, '.data'))).toEqual([])
  })

  test('a temporary folder whose path is too long is skipped', async () => {
    const long = mkdirIn(folder(), 'x'.repeat(90))
    const postgres = await start(dataFolder(), { runtime: { temporary: [long, '/tmp'] } })
    expect(postgres.url()).toContain('host=%2Ftmp%2Frewardops-')
  })
})

const POLL = { timeout: 30_000, interval: 20 }
