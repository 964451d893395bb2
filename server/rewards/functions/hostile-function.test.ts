import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { FULL, inFullRun } from '../../../testkit/service/full-run.ts'
import { Access } from '../../http/access.ts'
import { createListener, type Handler, type Routes } from '../../http/listener.ts'
import { type IsolationPlan, planIsolation } from '../../isolation/isolation.ts'
import { createLogger } from '../../log.ts'
import { HOST_PATHS } from './start-host.ts'
import { TEST_PLAN } from './testing/test-plan.ts'
import { FUNCTION_ENV, lives, sampleOf, type TestPool, testPool } from './testing/test-pool.ts'

/**
 * A hostile function tries to reach files, processes and ports that do not belong to it. Another function runs during
 * every attempt, and its samples must all be scored. A table of the blocked attempts is printed.
 */

const SANDBOX_PLAN = await planIsolation({ level: 'sandbox', network: 'none', paths: HOST_PATHS })
const SECRET = 'a-secret-of-the-service'

interface Aims {
  /**
   * Ids of three processes: a process of the service that has the secret in its environment, the worker, and the
   * process of another function.
   */
  service: number
  worker: number
  sibling: number
  /** A file of the service, readable by its user only. */
  secretFile: string
  /** A path in a folder that every user can write to. */
  outside: string
  project: string
  postgres: string
  /** Ports of the service, which requires no API keys, and of another server on this machine. */
  api: number
  otherPort: number
}

interface Attempt {
  name: string
  /**
   * The body of an async function with the parameter `aims`. It throws or returns a text if the attempt was refused,
   * and returns true if it succeeded.
   */
  code: string
  /** Whether level `process` blocks the attempt if each function process has its own user. */
  process: boolean
  unharmed?: (aims: Aims) => boolean
  /** The levels at which `npm test` runs the attempt. The full run has every attempt at every level. */
  quick?: ('process' | 'sandbox')[]
}

const START = `const { spawn, spawnSync } = await import('node:child_process')
const sh = (script) => spawnSync('sh', ['-c', script], { encoding: 'utf8' }).stdout.trim()
`

const ATTEMPTS: Attempt[] = [
  {
    name: 'read the secret in the environment of the service',
    code: "return fs.readFileSync('/proc/' + aims.service + '/environ', 'utf8').includes('a-secret')",
    process: true,
    quick: ['sandbox'],
  },
  {
    name: 'read the memory of its worker',
    code: "return fs.openSync('/proc/' + aims.worker + '/mem', 'r') > 0",
    process: true,
  },
  {
    name: 'open the file descriptors of its worker',
    code: "return fs.readdirSync('/proc/' + aims.worker + '/fd').length > 0",
    process: true,
  },
  {
    name: 'read the environment of a sibling',
    code: "return fs.readFileSync('/proc/' + aims.sibling + '/environ', 'utf8').length > 0",
    process: true,
  },
  {
    name: 'read a file of the service’s user',
    code: "return fs.readFileSync(aims.secretFile, 'utf8').length > 0",
    process: true,
  },
  {
    name: 'read /etc/shadow',
    code: "return fs.readFileSync('/etc/shadow', 'utf8').length > 0",
    process: true,
  },
  {
    name: 'find a secret in its own environment',
    code: 'return JSON.stringify(process.env).includes("a-secret") || "not in it"',
    process: true,
  },
  {
    name: 'list the temporary folders of siblings',
    code: `const others = fs.readdirSync('/tmp').filter((name) => name.startsWith('rewardops-function-'))
      return others.some((name) => { try { return fs.readdirSync('/tmp/' + name) && '/tmp/' + name !== process.env.TMPDIR } catch { return false } }) || 'none readable'`,
    process: true,
  },
  {
    name: 'connect to Postgres',
    code: `await connected({ path: aims.postgres })
      return true`,
    process: true,
  },
  {
    name: 'call the API as the service’s user',
    code: `const answer = await fetch('http://127.0.0.1:' + aims.api + '/api/trpc/about.get')
      return answer.status === 403 ? '403 forbidden_user' : true`,
    process: true,
    quick: ['process'],
  },
  {
    name: 'reach another port of the machine',
    code: `await connected({ port: aims.otherPort, host: '127.0.0.1' })
      return true`,
    process: false,
  },
  {
    name: 'write into the project',
    code: "fs.writeFileSync(aims.project + '/server/written-by-a-function.ts', ''); return true",
    process: true,
    unharmed: ({ project }) => !existsSync(join(project, 'server/written-by-a-function.ts')),
  },
  {
    name: 'change its own version',
    code: "fs.appendFileSync(new URL(import.meta.url), '// changed'); return true",
    process: true,
  },
  {
    name: 'write into /usr, /etc or a control group',
    code: `return ['/usr', '/etc', '/sys/fs/cgroup/memory'].some((at) => {
        try { fs.writeFileSync(at + '/written-by-a-function', ''); return true } catch { return false }
      }) || 'none writable'`,
    process: true,
    unharmed: () => !existsSync('/usr/written-by-a-function'),
  },
  {
    name: 'write outside its temporary folder',
    code: "fs.writeFileSync(aims.outside, ''); return true",
    process: false,
  },
  {
    name: 'fill the disk with one file',
    code: `const big = fs.openSync(process.env.TMPDIR + '/big', 'w')
      const block = Buffer.alloc(1 << 24)
      process.on('SIGXFSZ', () => {})
      for (let at = 0; at < 200; at++) fs.writeSync(big, block)
      return true`,
    process: true,
  },
  {
    name: 'fill the disk with many files',
    code: `const block = Buffer.alloc(1 << 24)
      for (let at = 0; at < 200; at++) {
        fs.writeFileSync(process.env.TMPDIR + '/big' + at, block)
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      return true`,
    process: true,
  },
  {
    name: 'have the target of a link removed with its temporary folder',
    code: `fs.symlinkSync(aims.project, process.env.TMPDIR + '/link')
      process.kill(process.pid, 'SIGKILL')`,
    process: true,
    unharmed: ({ project }) => existsSync(join(project, 'package.json')),
  },
  {
    name: 'gain privileges by a set-user-id program',
    code: `${START}
      return sh('grep NoNewPrivs /proc/self/status').endsWith('1') ? 'no new privileges' : true`,
    process: true,
  },
  {
    name: 'start 1,000 children',
    code: `${START}
      const script = 'i=0; while [ $i -lt 1000 ]; do sleep 30 >/dev/null 2>&1 & i=$((i + 1)); done; echo all'
      return sh(script + ' 2>/dev/null').includes('all')`,
    process: true,
    quick: ['sandbox'],
  },
  {
    name: 'leave a detached child',
    code: `${START}
      spawn('setsid', ['sh', '-c', 'sleep 7654.25 & sleep 7654.25'], { detached: true, stdio: 'ignore' }).unref()
      await new Promise((resolve) => setTimeout(resolve, 500))
      process.kill(process.pid, 'SIGKILL')`,
    process: true,
    unharmed: () => !commandLines().some((line) => line.includes('7654.25')),
    quick: ['process'],
  },
  {
    name: 'take 4 GB in children',
    code: `${START}
      const eat = 'process.title = "eats"; const all = []; for (let i = 0; i < 40; i++) all.push(Buffer.alloc(1 << 25, 1)); setTimeout(() => {}, 3000)'
      const children = [1, 2, 3].map(() => spawn(process.execPath, ['-e', eat], { stdio: 'ignore' }))
      const codes = await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))))
      return codes.every((code) => code === 0) || 'a child was killed'`,
    process: true,
  },
  {
    name: 'take 4 GB itself',
    code: `const all = []
      for (let i = 0; i < 128; i++) { all.push(Buffer.alloc(1 << 25, 1)); await new Promise((resolve) => setTimeout(resolve, 5)) }
      return true`,
    process: true,
  },
  {
    name: 'kill its worker',
    code: "return process.kill(aims.worker, 'SIGTERM')",
    process: true,
  },
  {
    name: 'kill a sibling',
    code: "return process.kill(aims.sibling, 'SIGKILL')",
    process: true,
    unharmed: ({ sibling }) => lives(sibling),
  },
  {
    name: 'kill everything it may signal',
    code: `process.kill(-1, 'SIGKILL')
      return 'only its own processes'`,
    process: true,
    unharmed: ({ service, sibling }) => lives(service) && lives(sibling),
  },
  {
    name: 'trace its worker',
    code: `${START}
      const done = sh('perl -e \\'print syscall(' + (process.arch === 'x64' ? 101 : 117) + ', 16, ' + aims.worker + ', 0, 0)\\'')
      return done === '0' || 'refused'`,
    process: true,
  },
  {
    name: 'mount a file system in a namespace of its own',
    code: `${START}
      return sh('unshare --user --map-root-user --mount mount -t tmpfs none /mnt && echo mounted').includes('mounted') || 'refused'`,
    process: false,
  },
  {
    name: 'send its worker garbage',
    code: `fs.writeSync(3, Buffer.from([255, 255, 255, 255, 1, 2, 3]))
      await new Promise((resolve) => setTimeout(resolve, 3000))
      return true`,
    process: true,
  },
  {
    name: 'forge the verdict of another run',
    code: `const { encodeFrame } = await import(aims.project + '/server/rewards/functions/host-frames.ts')
      for (let id = 1; id < 200; id++) fs.writeSync(3, encodeFrame({ type: 'end', id, sync: true, busyMs: 0, end: { ok: true, score: 999, extra: null } }))
      await new Promise((resolve) => setTimeout(resolve, 3000))
      return true`,
    process: true,
    quick: ['sandbox'],
  },
  {
    name: 'print without end',
    code: `const line = 'x'.repeat(1 << 20)
      for (const until = performance.now() + 3000; performance.now() < until; ) {
        await new Promise((resolve) => process.stdout.write(line, resolve))
      }
      return 'printed for 3 s'`,
    process: true,
  },
]

const module = ({ code }: Attempt) => `import * as fs from 'node:fs'
import * as net from 'node:net'
const connected = (to) => new Promise((resolve, reject) => net.connect(to).once('connect', resolve).once('error', reject))
export default async ({ aims }) => {
  const attempt = async () => { ${code} }
  const outcome = await attempt().catch((error) => String(error.code ?? error.message))
  return { score: outcome === true ? 1 : 0, outcome: String(outcome) }
}`

const QUIET = `
export default async () => { await new Promise((resolve) => setTimeout(resolve, 20)); return { score: 1, pid: process.pid } }`

const commandLines = () => spawnSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).stdout.split('\n')

let service: ChildProcess
let folder: string
let api: Server
let other: Server
let aims: Omit<Aims, 'sibling'>
const rows = new Map<string, Record<string, string>>()

beforeAll(async () => {
  service = spawn('sleep', ['1000'], { env: { SECRET } as never })
  folder = mkdtempSync(join(tmpdir(), 'rewardops-secrets-'))
  chmodSync(folder, 0o755)
  const secretFile = join(folder, 'secret')
  writeFileSync(secretFile, SECRET, { mode: 0o600 })
  const log = createLogger('silent', 'test')
  const answer =
    (text: string): Handler =>
    (_req, res) =>
      void res.end(text)
  const routes: Routes = {
    health: answer('healthy'),
    trpc: answer('the API'),
    proxy: answer('the router'),
    pages: null,
    stopping: false,
  }
  const access = new Access(
    { apiKeys: [], trustedProxies: [], allowedHosts: [], basePath: '' },
    log,
  )
  api = createListener(access, routes, log, null).listen(0, '127.0.0.1')
  other = createServer(() => {}).listen(0, '127.0.0.1')
  await Promise.all([once(api, 'listening'), once(other, 'listening')])
  const { searchParams } = new URL(inject('testPostgres').adminUrl)
  aims = {
    service: service.pid as number,
    worker: process.pid,
    secretFile,
    outside: `/var/tmp/rewardops-hostile-${process.pid}`,
    project: HOST_PATHS[1]!.replace(/\/package\.json$/, ''),
    postgres: join(searchParams.get('host') as string, '.s.PGSQL.5432'),
    api: (api.address() as AddressInfo).port,
    otherPort: (other.address() as AddressInfo).port,
  }
})

afterAll(() => {
  service.kill('SIGKILL')
  api.close()
  other.close()
  rmSync(folder, { recursive: true, force: true })
  const line = (cells: (string | undefined)[]) =>
    `| ${cells.map((cell) => cell ?? '').join(' | ')} |`
  const columns = PLANS.map(([column]) => column)
  const table = [...rows].map(([name, row]) => line([name, ...columns.map((one) => row[one])]))
  const head = ['attempt', ...columns]
  console.log([line(head), line(head.map(() => '---')), ...table].join('\n'))
})

test.skipIf(SANDBOX_PLAN.sandbox?.ok !== true)(
  'a sandbox with the network `router` reaches the router address, and nothing else',
  async () => {
    const one = testPool({
      settings: {
        env: FUNCTION_ENV,
        memoryBytes: 256 << 20,
        plan: { ...SANDBOX_PLAN, network: 'router' },
      },
      rewardRouterAddress: `127.0.0.1:${aims.api}`,
    })
    try {
      const ref = one.ref(
        `export default async ({ otherPort }, { rewardRouterAddress }) => {
          const at = 'http://' + rewardRouterAddress
          const models = await (await fetch(at + '/v1/models')).text()
          const api = (await fetch(at + '/api/trpc/about.get')).status
          const other = await fetch('http://127.0.0.1:' + otherPort).catch(() => 'refused')
          return { score: 1, models, api, other }
        }`,
        { isolation: 'sandbox', kwargs: { otherPort: aims.otherPort } },
      )
      expect(await one.pool.score(ref, sampleOf('x'), {}, options('b1-1'))).toMatchObject({
        extra: { models: 'the router', api: 403, other: 'refused' },
      })
    } finally {
      await one.close()
    }
  },
)

const options = (sampleId: string, timeoutMs = 15_000) => ({
  timeoutMs,
  signal: undefined,
  run: 'a run',
  sampleId,
})

const PLANS: [column: string, plan: IsolationPlan][] = [
  ['process', TEST_PLAN],
  ...inFullRun<[string, IsolationPlan]>([
    'process, without control groups',
    { ...TEST_PLAN, cgroups: null },
  ]),
  ['sandbox', SANDBOX_PLAN],
]

describe.each(PLANS)('at level %s, a hostile function cannot', (column, plan) => {
  const { level } = plan
  const canRun = level === 'process' || SANDBOX_PLAN.sandbox?.ok === true
  let one: TestPool
  beforeAll(() => {
    one = testPool({
      settings: { env: FUNCTION_ENV, memoryBytes: 256 << 20, plan },
      maxProcesses: 4,
    })
  })
  afterAll(() => one.close())

  const attempts = ATTEMPTS.filter(({ quick }) => FULL || quick?.includes(level))
  test.skipIf(!canRun).each(attempts)('$name', async (attempt) => {
    const quiet = one.ref(QUIET, { isolation: level })
    const first = await one.pool.score(quiet, sampleOf('x'), {}, options('quiet-0'))
    expect(first).toMatchObject({ ok: true })
    const sibling = Number(first.ok && first.extra?.pid)
    const given: Aims = {
      ...aims,
      sibling: level === 'sandbox' ? (one.pool.pids[0] as number) : sibling,
    }
    const hostile = one.ref(module(attempt), { isolation: level, kwargs: { aims: given } })
    let isOver = false
    const attacking = one.pool.score(hostile, sampleOf('x'), {}, options('hostile')).finally(() => {
      isOver = true
    })
    const scores: unknown[] = []
    for (let n = 1; !isOver || n < 20; n++) {
      const outcome = await one.pool.score(quiet, sampleOf('x'), {}, options(`quiet-${n}`))
      scores.push(outcome.ok ? outcome.score : outcome)
    }
    const outcome = await attacking
    const isUnharmed = await eventually(() => attempt.unharmed?.(given) ?? true)
    const held = isUnharmed && !(outcome.ok && outcome.score === 1)
    const how = outcome.ok ? String(outcome.extra?.outcome) : outcome.detail
    rows.set(attempt.name, {
      ...rows.get(attempt.name),
      [column]: held ? `held: ${how.slice(0, 90)}` : 'not held',
    })
    expect(scores).toEqual(scores.map(() => 1))
    const isExpected = level === 'sandbox' || (attempt.process && plan.user === 'function')
    if (isExpected) expect([held, how]).toEqual([true, how])
  })
})

/** Waits up to 3 s, because processes end some time after their function. */
async function eventually(condition: () => boolean): Promise<boolean> {
  for (const until = performance.now() + 3_000; performance.now() < until; ) {
    if (condition()) return true
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return condition()
}
