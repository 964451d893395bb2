import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, globSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import type { Profiler } from 'node:inspector'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../testkit/service/wait-for.ts'
import { CpuWatch, partOfPostgres, totalUs } from './account-cpu.ts'
import { Profilers } from './account-profiles.ts'
import {
  FILES,
  stageOfFile,
  stageOfStatement,
  stagesOfProfile,
  stagesOfStatements,
} from './account-stages.ts'
import { parseStatementLog, StatementLog } from './account-statements.ts'
import { stageRows } from './account-table.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
let folder: string
const cleanups: (() => void)[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'account-'))
})

afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
  rmSync(folder, { recursive: true, force: true })
})

test('every file rule matches a file, and every file of worker, router and engines has a stage', () => {
  const files = globSync('server/**/*.ts', { cwd: ROOT }).filter(
    (file) => !/\.test\.ts$|\/testing\/|\/generated\//.test(file),
  )
  expect(FILES.filter((rule) => !files.some((file) => rule.file.test(file)))).toEqual([])
  const isOnWayOfSample = (file: string) => /^server\/(worker|router|engines)\//.test(file)
  const nowhere = files.filter(
    (f) => isOnWayOfSample(f) && stageOfFile(f, '', 'workers') === 'other',
  )
  expect(nowhere).toEqual([])
})

test('the stage of a file can depend on the thread or the function', () => {
  expect(stageOfFile('server/store/stored-texts.ts', 'encodeTexts', 'ingest')).toBe('encode')
  expect(stageOfFile('server/store/stored-texts.ts', 'decodeTexts', 'workers')).toBe('read')
  expect(stageOfFile('server/engines/vllm.ts', 'wholeTextRequest', 'workers')).toBe('build')
  expect(stageOfFile('server/engines/vllm.ts', 'parseScoreResponse', 'workers')).toBe(
    'parse answer',
  )
})

/** A profile with one sample of 1,000 µs per stack; stacks are listed from root to leaf. */
function profileOf(stacks: [functionName: string, url: string][][]): Profiler.Profile {
  const nodes: Profiler.ProfileNode[] = []
  const add = (functionName: string, url: string) => {
    const callFrame = { functionName, url, scriptId: '0', lineNumber: 0, columnNumber: 0 }
    nodes.push({ id: nodes.length + 1, callFrame, children: [] })
    return nodes.at(-1) as Profiler.ProfileNode
  }
  const root = add('(root)', '')
  const samples = stacks.map((stack) => {
    let node = root
    for (const [functionName, url] of stack) {
      const child = add(functionName, url)
      node.children?.push(child.id)
      node = child
    }
    return node.id
  })
  return { nodes, startTime: 0, endTime: 0, samples, timeDeltas: samples.map(() => 1000) }
}

const OURS = 'file:///checkout/server/'
const PACKAGES = 'file:///checkout/node_modules/'

test.each<[string, [string, string][], string]>([
  ['a project function', [['push', `${OURS}batches/accept/body-splitter.ts`]], 'parse'],
  [
    'package code that a project function calls',
    [
      ['post', `${OURS}router/transport.ts`],
      ['request', `${PACKAGES}undici/lib/api.js`],
      ['write', 'node:net'],
    ],
    'call',
  ],
  [
    'a built-in that a package calls',
    [
      ['onStreamRead', 'node:internal/stream_base_commons'],
      ['parse', `${PACKAGES}pg-protocol/dist/parser.js`],
      ['toString', 'node:buffer'],
    ],
    'database client',
  ],
  [
    'a project function that a package calls',
    [
      ['readMore', `${PACKAGES}undici/lib/client.js`],
      ['readJsonAnswer', `${OURS}engines/answer.ts`],
    ],
    'parse answer',
  ],
  ['the garbage collector', [['(garbage collector)', '']], 'garbage collection'],
  ['Node code without a project function', [['processTimers', 'node:internal/timers']], 'other'],
])('%s is assigned to its stage', (_, stack, stage) => {
  const { us } = stagesOfProfile(profileOf([stack]), 'workers', 'file:///checkout/')
  expect(us).toEqual({ [stage]: 1000 })
})

test('idle time and the cost of profiling are excluded', () => {
  const profile = profileOf([
    [['(idle)', '']],
    [['stop', 'file:///checkout/bench/account-profiler.ts']],
    [['write', `${OURS}store/postgres/log-lines.ts`]],
  ])
  expect(stagesOfProfile(profile, 'server', 'file:///checkout/').us).toEqual({})
})

test.each([
  ['copy sample_text_20261122 (bucket, batch_id) from stdin binary', 'copy'],
  ['COMMIT;', 'commit'],
  ['select flush_results($1,$2) as n', 'flush'],
  ["WITH\n    next AS ( SELECT j.id FROM pgboss.job_common j WHERE j.name = 'rules'", 'claim'],
  ['insert into claim (job_id) values ($1)', 'claim'],
  ['select idx, prompt, response from sample_text where bucket = $4', 'read'],
  ['select no, uid, seq, completed_at, received from ( select', 'deliver'],
  ['INSERT INTO pgboss.job_common ( id, name', 'accept'],
  ['BEGIN; SET LOCAL lock_timeout = 30000; SELECT pg_advisory_xact_lock(1); pgboss', 'upkeep'],
  ['select 1', 'other'],
])('%s belongs to stage %s', (statement, stage) => {
  expect(stageOfStatement(statement)).toBe(stage)
})

const entry = (pid: number, kind: string, user: string, system: string, statement: string) =>
  [
    `2026-11-22 10:45:01.101 UTC [${pid}] LOG:  ${kind} STATISTICS`,
    `2026-11-22 10:45:01.101 UTC [${pid}] DETAIL:  ! system usage stats:`,
    `\t!\t${user} s user, ${system} s system, 0.500000 s elapsed`,
    '\t!\t[9.000000 s user, 9.000000 s system total]',
    '\t!\t0/0 [0/0] filesystem blocks in/out',
    `2026-11-22 10:45:01.101 UTC [${pid}] STATEMENT:  ${statement}`,
    '',
  ].join('\n')

test("a statement's CPU time is its user plus system time, without waits", () => {
  const text = [
    '2026-11-22 10:45:01.000 UTC [7] LOG:  checkpoint starting: time\n',
    entry(11, 'BIND MESSAGE', '0.000100', '0.000020', 'select a\n\t  from b'),
    entry(12, 'QUERY', '0.000003', '0.000000', 'commit'),
  ].join('')
  const found = parseStatementLog(text)
  expect(found).toEqual([
    { pid: 11, cpuUs: expect.closeTo(120), statement: 'select a from b' },
    { pid: 12, cpuUs: expect.closeTo(3), statement: 'commit' },
  ])
  const { us, statements } = stagesOfStatements(found)
  expect(us).toEqual({ other: expect.closeTo(120), commit: expect.closeTo(3) })
  expect([...statements.keys()]).toEqual(['select a from b'])
})

test('the statement log is followed from its end and across renames', async () => {
  const path = join(folder, 'postgres.log')
  writeFileSync(path, entry(1, 'QUERY', '0.000001', '0.000000', 'before'))
  const log = new StatementLog(folder)
  appendFileSync(path, entry(1, 'QUERY', '0.000001', '0.000000', 'first'))
  renameSync(path, `${path}.1`)
  writeFileSync(path, entry(1, 'QUERY', '0.000001', '0.000000', 'second'))
  const found = await log.stop()
  expect(found.map(({ statement }) => statement)).toEqual(['first', 'second'])
})

test('the stages add up to the exact total, without autovacuum', () => {
  const times = {
    server: { 'main thread': 10, 'worker threads': 20, 'V8 helpers (GC, JIT)': 5 },
    workers: { 'main thread': 40, 'other threads': 1 },
    postgres: { 'backends of x': 50, 'backends of y': 10, walwriter: 2, autovacuum: 99 },
  }
  const rows = stageRows(times, {
    server: { http: 300, deliver: 100 },
    ingest: {},
    workers: { call: 7 },
    postgres: { copy: 30, flush: 30 },
    backendsUs: 80,
  })
  const of = (stage: string) => rows.find((row) => row.stage === stage)
  expect(rows.reduce((sum, row) => sum + row.total, 0)).toBeCloseTo(totalUs(times))
  expect(totalUs(times)).toBe(138)
  expect(of('http')).toMatchObject({ server: 7.5, total: 7.5 })
  expect(of('other')).toMatchObject({ ingest: 20 })
  expect(of('copy')).toMatchObject({ postgres: 22.5 })
  expect(of('outside statements')).toMatchObject({ postgres: 15 })
})

test.each([
  ['postgres: rewardops rewardops [local] idle', 'backend'],
  ['postgres: io worker 2', 'io worker'],
  ['postgres: autovacuum worker rewardops', 'autovacuum'],
  ['postgres: autovacuum launcher ', 'autovacuum'],
  ['postgres: checkpointer', 'checkpointer'],
])('%s is of kind %s', (title, part) => {
  expect(partOfPostgres(title)).toBe(part)
})

const BURNER = `
  import { createInterface } from 'node:readline'
  import { isMainThread, parentPort, Worker } from 'node:worker_threads'

  function spin() {
    const until = process.cpuUsage().user + 150_000
    while (process.cpuUsage().user < until);
  }

  if (isMainThread) {
    let before
    const worker = new Worker(new URL(import.meta.url))
    worker.once('online', () => console.log('ready'))
    worker.on('message', () => {
      const { user, system } = process.cpuUsage(before)
      console.log(user + system)
    })
    createInterface({ input: process.stdin }).on('line', () => {
      before = process.cpuUsage()
      worker.postMessage('burn')
      spin()
    }).on('close', () => process.exit())
  } else {
    parentPort.on('message', () => {
      spin()
      parentPort.postMessage('burnt')
    })
  }`

function startBurner(env: Record<string, string> = {}) {
  const script = join(folder, 'burner.mjs')
  writeFileSync(script, BURNER)
  const child = spawn(process.execPath, [script], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  cleanups.push(() => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })
  return {
    pid: child.pid as number,
    line: async () => ((await once(lines, 'line')) as [string])[0],
    burn: () => child.stdin.write('burn\n'),
  }
}

test.runIf(process.platform === 'linux')(
  'a watch counts the CPU time of all threads, as the process itself does',
  async () => {
    const burner = startBurner()
    await burner.line()
    const watch = new CpuWatch({ server: burner.pid, workers: [], postgres: process.pid })
    const used = burner.line()
    burner.burn()
    const ownUs = Number(await used)
    watch.stop()
    const { server } = watch.times(new Map())
    const totalServerUs = Object.values(server).reduce((a, b) => a + b, 0)
    expect(server['main thread']).toBeGreaterThan(50_000)
    expect(server['worker threads']).toBeGreaterThan(50_000)
    // The watch starts before the process begins to count its own CPU time, and stops after the process has counted it.
    // The watch therefore counts at least as much.
    expect(totalServerUs).toBeGreaterThan(ownUs * 0.95)
    expect(totalServerUs).toBeLessThan(ownUs * 1.5)
  },
)

test('every thread of a process is profiled from outside', async () => {
  const profilers = await Profilers.listen(join(folder, 'profilers.sock'))
  cleanups.push(() => profilers.close())
  const burner = startBurner(profilers.env)
  await burner.line()
  await waitFor('both threads are connected', () => profilers.threads === 2)
  await profilers.start()
  const used = burner.line()
  burner.burn()
  await used
  const profiles = await profilers.stop()
  expect(profiles.map(({ pid }) => pid)).toEqual([burner.pid, burner.pid])
  expect(profiles.map(({ isMainThread }) => isMainThread).sort()).toEqual([false, true])
  for (const { profile } of profiles) {
    const names = profile.nodes.map(({ callFrame }) => callFrame.functionName)
    expect(names).toContain('spin')
  }
})
