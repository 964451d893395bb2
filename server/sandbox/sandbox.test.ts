/** The sandbox over HTTP, as the rule `code` and SandboxFusion's clients call it. */
import { execFileSync } from 'node:child_process'

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { childrenOf } from '../../testkit/chaos/processes.ts'
import { inFullRun } from '../../testkit/service/full-run.ts'
import { environment } from '../../testkit/service/service.ts'
import { RunCodeRequest, type RunTestsRequest } from '../contract/sandbox.ts'
import { sandboxServer } from './http.ts'
import { PythonRuns, RunLostError, sandboxUser } from './python-runs.ts'
import { runCode } from './run-code.ts'
import { runLimits } from './run-job.ts'
import { SandboxProcess } from './sandbox-process.ts'
import { CHEATED_TESTS, CHEATS } from './testing/cheats.ts'
import {
  brokenSolutionOf,
  hasPassed,
  humanEval,
  judged,
  python,
  testOptions,
  testRuns,
  testsOf,
} from './testing/programs.ts'

const SLOTS = 2

let runs: PythonRuns
let server: Server
let url: string

const log = { error: () => {} } as never

async function listening(of: Server): Promise<string> {
  of.listen(0, '127.0.0.1')
  await once(of, 'listening')
  return `http://127.0.0.1:${(of.address() as AddressInfo).port}`
}

beforeAll(async () => {
  if (!python.ok) return
  runs = testRuns(SLOTS)
  await runs.start()
  server = sandboxServer(runs, SLOTS, log)
  url = await listening(server)
})
afterAll(async () => {
  server?.close()
  server?.closeAllConnections()
  await runs?.close()
})

async function post(path: string, body: object, at = url) {
  const response = await fetch(`${at}${path}`, { method: 'POST', body: JSON.stringify(body) })
  // biome-ignore lint/suspicious/noExplicitAny: an answer is asserted field by field.
  return { status: response.status, body: (await response.json()) as any }
}

const run = async (code: string, more: object = {}) =>
  (await post('/run_code', { code, language: 'python', run_timeout: 5, ...more })).body

const check = async (code: string, cases: string[], more: Partial<RunTestsRequest> = {}) =>
  (await post('/run_tests', { code, language: 'python', cases, run_timeout: 5, ...more })).body

/** Process id of the interpreter that a sandbox has started. */
function interpreterIn(sandbox: number): number {
  const pid = childrenOf(sandbox)[0] as number
  const isBubblewrap = readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('bwrap')
  return isBubblewrap ? interpreterIn(pid) : pid
}

describe.skipIf(!python.ok)('/run_code', () => {
  test('answers as SandboxFusion', async () => {
    expect(
      await run('print(input() * 2)', { stdin: 'ab\n', compile_timeout: 1, files: {} }),
    ).toEqual({
      status: 'Success',
      message: '',
      compile_result: null,
      run_result: {
        ...{ status: 'Finished', return_code: 0, stdout: 'abab\n', stderr: '', limit: null },
        execution_time: expect.any(Number),
      },
    })
    const failed = await run('import sys\nprint("é", file=sys.stderr)\nsys.exit(3)')
    expect(failed).toMatchObject({
      status: 'Failed',
      run_result: { return_code: 3, stderr: 'é\n' },
    })
    const raised = await run('def f():\n    return 1 / 0\nf()')
    expect(raised.run_result.stderr).toMatch(/^Traceback .*\n {2}File "\/tmp\/main.py", line 3/)
    expect(raised.run_result.stderr).toMatch(/return 1 \/ 0\n[\s\S]*ZeroDivisionError/)
  })

  test.for<[limit: string, code: string, more: object]>([
    ['wall_time', 'import time\ntime.sleep(60)', { run_timeout: 0.2 }],
    ['wall_time', 'import os\nfor _ in range(1 << 20): os.write(3, b"x")', { run_timeout: 0.2 }],
    ['memory', 'x = bytearray(1 << 28)', { memory_limit_MB: 64 }],
    ['output', 'while True: print("x" * 1000)', {}],
    ['files', 'open("big", "wb").write(bytes(100 << 20))', {}],
    ['processes', 'import os\nwhile os.fork() >= 0: pass', {}],
  ])('reports that a program exceeded its limit of %s', async ([limit, code, more]) => {
    const { status, run_result: ran } = await run(code, more)
    expect(status).toBe('Failed')
    expect(ran.limit).toBe(limit)
    expect(ran.status).toBe(limit === 'wall_time' ? 'TimeLimitExceeded' : 'Finished')
  })

  test('a program sees no other process, file, socket or variable, and no earlier run', async () => {
    await run('open("/tmp/left", "w").write("x"); import math; math.left = 1')
    const { run_result: ran } = await run(`
import math, os, socket
print(os.listdir("/tmp"), os.listdir("/dev/shm"), hasattr(math, "left"))
print(sorted(p for p in os.listdir("/proc") if p.isdigit()), sorted(os.environ))
for what in (lambda: socket.socket(), lambda: os.listdir("/opt/rewardops"), lambda: open("/usr/x", "w"), lambda: os.setuid(0), lambda: open("/proc/sys/kernel/hostname", "w")):
    try: print(what())
    except OSError as error: print(error.errno)
`)
    const [folders, outside, ...refused] = ran.stdout.trim().split('\n')
    expect(folders).toBe('[] [] False')
    expect(outside).toBe("['1'] ['HOME', 'LANG', 'PATH', 'PWD', 'PYTHONHASHSEED']")
    expect(refused).toHaveLength(5)
    for (const errno of refused) expect(errno).toMatch(/^\d+$/)
  })

  test('refuses what it does not support', async () => {
    expect(await post('/run_code', { code: '', language: 'cobol' })).toMatchObject({ status: 422 })
    const files = { code: '', language: 'python', files: { a: '' } }
    expect(await post('/run_code', files)).toMatchObject({ status: 422 })
    expect(await post('/run_code', { language: 'python' })).toMatchObject({ status: 422 })
    expect(await post('/run', {})).toMatchObject({ status: 404 })
    expect((await fetch(`${url}/run_code`)).status).toBe(405)
    expect((await fetch(`${url}/run_code`, { method: 'POST', body: '{' })).status).toBe(400)
    const health = await (await fetch(`${url}/health`)).json()
    expect(health).toMatchObject({ status: 'ok', slots: SLOTS, running: 0, queued: 0 })
  })
})

test.for(['wall_time', 'cpu_time'] as const)(
  'a program that exceeded its limit of %s has no return code',
  async (limit) => {
    const run = async () => ({
      ...{ limit, wallS: 1, cpuS: 1, peakBytes: 0, returnCode: -9, stdout: 'a', stderr: '' },
    })
    const request = RunCodeRequest.parse({ code: 'while True: pass', language: 'python' })
    const reply = await runCode(request, { run }, new AbortController().signal)
    expect(reply).toMatchObject({
      status: 'Failed',
      run_result: { status: 'TimeLimitExceeded', return_code: null, limit, stdout: 'a' },
    })
  },
)

describe.skipIf(!python.ok)('/run_tests', () => {
  test('judges each case, and continues after one that ends the program', async () => {
    const program = `
import os
def f(x):
    if x == 2: os._exit(0)
    if x == 3: raise KeyError("three")
    if x == 4: return object()
    return x + 1
`
    const cases = [1, 2, 3, 4, 5, 0].map((x) => `assert f(${x}) == ${x === 0 ? 0 : x + 1}`)
    const { isolation, cases: found } = await check(program, cases)
    expect(isolation).toBe('strong')
    expect(found).toMatchObject([
      { status: 'passed', detail: null, limit: null },
      { status: 'runtime_error', detail: 'the program ended in f' },
      { status: 'runtime_error', detail: 'KeyError: three' },
      { status: 'unsupported_type' },
      { status: 'passed' },
      { status: 'wrong_answer' },
    ])
  })

  test.for(['strong', ...inFullRun('weak' as const)] as const)(
    'limits the CPU time of each case, not of all together, in %s isolation',
    async (mode) => {
      const spin = 'import time\ndef f(s):\n    while time.process_time() < s: pass'
      const program = { code: spin, helpers: '', setup: '', entryPoint: null, stdin: null }
      // The limit on the wall time is high, so that only the limit on CPU time ends a case, even on a busy machine.
      const limits = { ...runLimits(60, 256), cpuS: 1 }
      const cases = ['f(0.7)', 'f(1.4)', 'f(60)']
      const { report, limit } = await runs.run({ ...program, mode, cases, first: 0, limits })
      const passed = { case: expect.objectContaining({ status: 'passed' }) }
      expect(report).toEqual([{ loaded: true }, passed, passed])
      expect(limit).toBe('cpu_time')
    },
  )

  test('exchanges values of built-in types, and in-place changes of arguments', async () => {
    const values = `[None, True, -(1 << 70), 1.5, float("inf"), 2j, "é\\ud800", b"x", bytearray(b"y"), (1, [2, {3: {4}}]), frozenset({5}), range(1, 9, 2)]`
    const cases = [
      `v = ${values}\nassert same(v) == v and [type(one) for one in same(v)] == [type(one) for one in v]`,
      'l = [3, 1, 2]; d = {}; s = set()\nassert change(l, d, key=s) is None and (l, d, s) == ([1, 2, 3], {"a": 1}, set())',
      'd = {"a": 1, "b": 2}; s = {1, 2}\nremove(d, s=s)\nassert (d, s) == ({"b": 2}, {2})',
      'assert list(items(3)) == [0, 1, 2]',
      'assert type(counted("aab")) is dict and counted("aab") == {"a": 2, "b": 1}',
      'try: same(nested)\nexcept RecursionError: pass',
    ]
    const program = `
from collections import Counter
def same(x): return x
def change(l, d, key):
    l.sort(); d["a"] = 1
def remove(d, s):
    d.pop("a"); s.discard(1)
def items(n): return (i for i in range(n))
def counted(text): return Counter(text)
`
    const setup = 'nested = []\nfor _ in range(500): nested = [nested]'
    const { cases: found } = await check(program, cases, { setup })
    expect(found.map((one: { status: string }) => one.status)).toEqual([
      ...['passed', 'passed', 'passed', 'passed', 'passed'],
      'runtime_error',
    ])
  })

  test.for<[why: string, program: string, cases: string[], more: object]>([
    ['the tests use the class P of the program', 'class P: x = 1', ['assert P().x == 1'], {}],
    ['a test passes function to f', 'def f(g): return g(1)', ['assert f(lambda x: x) == 1'], {}],
    ['the tests use g of the program', 'def f(): 0\ng = 1', ['f(); g'], { entry_point: 'f' }],
    ['the tests use the value x of the program', 'x = 1', ['assert x == 1'], {}],
  ])('are weak if %s', async ([why, program, cases, more]) => {
    const weak = await check(program, cases, more)
    expect(weak).toMatchObject({ isolation: 'weak', isolation_reason: why })
    expect(weak.cases).toMatchObject([{ status: 'passed' }])
    const strong = await check(program, cases, { ...more, isolation: 'strong' })
    expect(strong).toEqual({ status: 'TestsError', message: why })
  })

  test('a function that returns a value does not change what a test compares with', async () => {
    const tests = ['xs = [3, 1, 2]\nassert f(xs) == sorted(xs)']
    const cheat = await check('def f(xs):\n    xs.clear()\n    return xs', tests)
    expect(cheat.cases).toMatchObject([{ status: 'wrong_answer' }])
    const right = await check('def f(xs):\n    xs.sort()\n    return xs', tests)
    expect(right.cases).toMatchObject([{ status: 'passed' }])
  })

  test('the program cannot replace helpers of the prompt for the tests', async () => {
    const helpers = 'def encode(x):\n    return x + 7\n'
    const program = 'def encode(x): return x\ndef decode(x): return x\n'
    const tests = { helpers, entry_point: 'decode' }
    const { cases } = await check(program, ['assert decode(encode(1)) == 1'], tests)
    expect(cases).toMatchObject([{ status: 'wrong_answer' }])
  })

  test('a program that does not load fails every case; tests that do not load are an error', async () => {
    const cases = ['assert f() == 1', 'assert f() == 1']
    const broken = await check('def f(: pass', cases)
    expect(broken.cases).toMatchObject([{ status: 'compile_error' }, { status: 'compile_error' }])
    const endless = await check('while True: pass', cases, { run_timeout: 0.2 })
    const late = { status: 'timeout', limit: 'wall_time' }
    expect(endless.cases).toMatchObject([late, late])
    expect(await check('def f(): return 1', ['assert f( == 1'])).toMatchObject({
      status: 'TestsError',
    })
  })

  test('no cheat that ends quickly passes', async () => {
    const resources = /without end|bomb|sleep|stays|files|memory|grader replaced/
    const quick = Object.entries(CHEATS).filter(([name]) => !resources.test(name))
    expect(quick.length).toBeGreaterThan(30)
    const passed = await Promise.all(
      quick.map(async ([name, code]) =>
        hasPassed(await judged(runs, { ...CHEATED_TESTS, code, isolation: 'strong' }))
          ? [name]
          : [],
      ),
    )
    expect(passed.flat()).toEqual([])
    const right = 'def solve(n): return {5: 80931, 12: 5512, 40: 97745}[n]'
    expect(hasPassed(await judged(runs, { ...CHEATED_TESTS, code: right }))).toBe(true)
  })

  const problems = humanEval()
  test.skipIf(problems === null)('passes solutions of HumanEval, not broken ones', async () => {
    for (const problem of (problems ?? []).filter((_, at) => at % 20 === 0)) {
      const tests = testsOf(problem)
      const right = await judged(runs, { ...tests, code: problem.canonical_solution })
      expect(right, problem.task_id).toMatchObject({ isolation: 'strong' })
      expect(hasPassed(right), problem.task_id).toBe(true)
      const wrong = await judged(runs, { ...tests, code: brokenSolutionOf(problem) })
      expect(hasPassed(wrong), problem.task_id).toBe(false)
    }
  })
})

describe.skipIf(!python.ok)('the service', () => {
  test('answers 504, which clients retry, when too many programs wait; a caller that leaves ends its program', async () => {
    const narrow = sandboxServer(runs, 1, log)
    const at = await listening(narrow)
    const gone = new AbortController()
    const body = JSON.stringify({
      code: 'import time\ntime.sleep(60)',
      language: 'python',
      run_timeout: 60,
    })
    const calls = Array.from({ length: 257 }, () =>
      fetch(`${at}/run_code`, { method: 'POST', body, signal: gone.signal }).catch(() => null),
    )
    const health = async () => (await fetch(`${at}/health`)).json()
    await expect.poll(health).toMatchObject({ running: 1, queued: 256 })
    const busy = await fetch(`${at}/run_code`, { method: 'POST', body })
    expect(busy.status).toBe(504)
    expect(busy.headers.get('retry-after')).toBe('1')
    gone.abort()
    await Promise.all(calls)
    await expect.poll(health).toMatchObject({ running: 0, queued: 0 })
    narrow.close()
  })

  test('restarts its interpreter when it has ended', async () => {
    const before = runs.pid
    process.kill(before as number, 'SIGKILL')
    await expect.poll(async () => (await run('print(1)')).run_result?.stdout).toBe('1\n')
    expect(runs.pid).not.toBe(before)
  })

  test('starts its interpreter until it has started', async () => {
    let failures = 2
    const options = testOptions(1, () => {})
    const fragile = new PythonRuns({
      ...options,
      // Throws as `spawn` does when memory is short.
      get python() {
        if (fragile.version !== '' && failures-- > 0) throw new Error('spawn ENOMEM')
        return options.python
      },
    })
    await fragile.start()
    process.kill(fragile.pid as number, 'SIGKILL')
    await expect.poll(() => failures).toBeLessThan(2)
    const reply = await judged(fragile, { code: 'def f(): return 1', cases: ['assert f() == 1'] })
    expect(hasPassed(reply)).toBe(true)
    await fragile.close()
  })

  test('runs programs again after forks that could not start', async () => {
    const failed = vi.fn()
    const scarce = new PythonRuns(testOptions(1, failed))
    await scarce.start()
    const interpreter = interpreterIn(scarce.pid as number)
    const limitFiles = (most: string) =>
      execFileSync('prlimit', ['--pid', `${interpreter}`, `--nofile=${most}:`], sandboxUser())
    const program = { code: 'def f(): return 1', cases: ['assert f() == 1'] }
    expect(hasPassed(await judged(scarce, program))).toBe(true)
    // A fork needs more open files than this, but the interpreter does not.
    limitFiles('4')
    const replies = [judged(scarce, program), judged(scarce, program), judged(scarce, program)]
    await expect.poll(() => failed.mock.calls.length).toBeGreaterThan(2)
    limitFiles('256')
    expect((await Promise.all(replies)).every(hasPassed)).toBe(true)
    await scarce.close()
  })

  test('a run whose process is killed before it reads its job can be repeated', async () => {
    const fragile = testRuns(1)
    await fragile.start()
    const interpreter = interpreterIn(fragile.pid as number)
    await expect.poll(() => childrenOf(interpreter).flatMap(childrenOf)).toHaveLength(1)
    const [fork] = childrenOf(interpreter) as [number]
    // The fork sleeps while it waits for a job.
    await expect.poll(() => readFileSync(`/proc/${fork}/stat`, 'utf8')).toContain(') S ')
    process.kill(fork, 'SIGSTOP')
    const lost = judged(fragile, { code: 'def f(): return 1', cases: ['assert f() == 1'] })
    const failure = expect(lost).rejects.toThrow(RunLostError)
    await new Promise(setImmediate)
    process.kill(fork, 'SIGKILL')
    await failure
    await fragile.close()
  })

  test('reports once why a local sandbox cannot run programs, and leaves no files', async () => {
    const warn = vi.fn()
    const env = environment({ REWARDOPS_SANDBOX_PYTHON: '/no/python' })
    const sandbox = new SandboxProcess(env, { warn, error: warn } as never)
    expect(await sandbox.ready()).toMatchObject({
      ok: false,
      reason: 'There is no Python at /no/python.',
      remedy: expect.stringContaining('REWARDOPS_SANDBOX_PYTHON'),
    })
    expect(await sandbox.ready()).toMatchObject({ ok: false })
    await sandbox.stop()
  })
})
