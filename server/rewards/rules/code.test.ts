import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RuleService, RuleServiceError } from './async-rule.ts'
import { codeRule, extractProgram } from './code.ts'
import { RuleInputError } from './rule.ts'

interface Job {
  code: string
  stdin: string | null
  compile_timeout: number
  run_timeout: number
  memory_limit_MB: number
  language: string
  files: object
  fetch_files: unknown[]
}

const finished = (stdout: string) => ({
  status: 'Success',
  run_result: { status: 'Finished', stdout, stderr: '', return_code: 0, execution_time: 0.01 },
})

let answer: (job: Job, response: ServerResponse) => unknown
let jobs: Job[]
let open: Set<ServerResponse>
let mostOpen: number
let sandbox: Server
let url: string
let paths: string[]
let service: RuleService

beforeAll(async () => {
  sandbox = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const job = JSON.parse(body) as Job
    jobs.push(job)
    paths.push(request.url as string)
    open.add(response)
    mostOpen = Math.max(mostOpen, open.size)
    // Each test has a new set `open`, but this test's response may close only during the next test.
    const mine = open
    response.on('close', () => mine.delete(response))
    const reply = await answer(job, response)
    if (reply === undefined) return
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(reply))
  })
  await new Promise<void>((resolve) => sandbox.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(sandbox.address() as AddressInfo).port}`
})
afterAll(() => {
  sandbox.closeAllConnections()
  sandbox.close()
})
beforeEach(() => {
  jobs = []
  paths = []
  service = { url, fetch }
  open = new Set()
  mostOpen = 0
  answer = (job) => finished(`${job.stdin}!\n`)
})

const program = 'Here:\n```python\nprint(input() + "!")\n```\nDone.'
const truth = { inputs: ['a', 'b', 'c', 'd'], outputs: ['a!', 'b!\n', 'c?', 'd!'] }
/** A single test case: when its call fails and the test ends, no other call is in flight. */
const one = { inputs: ['a'], outputs: ['a!'] }
const noWait = async () => {}

function score(
  solutionStr: string,
  groundTruth: unknown,
  kwargs: Record<string, unknown> = {},
  signal?: AbortSignal,
) {
  const input = {
    dataSource: 'apps',
    solutionStr,
    groundTruth,
    extraInfo: {},
    kwargs,
  }
  return codeRule.score(input, { sleep: noWait, service, ...(signal ? { signal } : {}) })
}

describe('scores', () => {
  test('the share of passed cases, with each result', async () => {
    expect(await score(program, truth)).toEqual({
      score: 0.75,
      extra: {
        acc: 0.75,
        passed: 3,
        cases: 4,
        statuses: ['passed', 'passed', 'wrong_answer', 'passed'],
        limits: [null, null, null, null],
        isolation: 'strong',
        extracted: '\nprint(input() + "!")\n',
        reason: '3 of 4 passed',
      },
      extracted: '\nprint(input() + "!")\n',
      reason: '3 of 4 passed',
      verdict: 'some passed',
    })
    expect(jobs[0]).toEqual({
      compile_timeout: 10,
      run_timeout: 10,
      code: '\nprint(input() + "!")\n',
      stdin: expect.stringMatching(/^[abcd]$/),
      memory_limit_MB: 1024,
      language: 'python',
      files: {},
      fetch_files: [],
    })
  })

  test('ten cases count, or all of them if configured', async () => {
    const many = {
      inputs: Array.from({ length: 20 }, (_, at) => String(at)),
      outputs: Array.from({ length: 20 }, (_, at) => (at < 10 ? `${at}!` : 'no')),
    }
    expect((await score(program, many)).score).toBe(1)
    expect(jobs).toHaveLength(10)
    expect((await score(program, many, { continuous: false })).score).toBe(0.5)
  })

  test('test cases as JSON text, limits and language from the kwargs', async () => {
    const kwargs = { memory_limit_mb: 256, timeout: 3, language: 'cpp' }
    expect((await score(program, JSON.stringify(truth), kwargs)).score).toBe(0.75)
    expect(jobs[0]).toMatchObject({
      memory_limit_MB: 256,
      compile_timeout: 3,
      run_timeout: 3,
      language: 'cpp',
    })
  })

  test('a function gets its arguments from the lines of standard input', async () => {
    await score('def add(a, b): return a + b', { inputs: ['1\n2'], outputs: ['3'], fn_name: 'add' })
    expect(jobs[0]?.code).toMatch(
      /^def add\(a, b\): return a \+ b\n(?:.|\n)*_reward_call\("add"\)\n$/,
    )
    expect(jobs[0]?.stdin).toBe('1\n2')
    const asserts = { inputs: ['5'], outputs: [null], assert_case: ['assert x == 1'] }
    const { extra } = await score('x = 1', asserts)
    expect(jobs[1]).toMatchObject({ code: 'x = 1\n\nassert x == 1', stdin: '5' })
    expect(extra).toMatchObject({
      ...{ isolation: 'weak', isolation_reason: 'the test cases have inputs and asserts' },
    })
    expect((await score('x = 1', asserts, { isolation: 'weak' })).extra).not.toHaveProperty(
      'isolation_reason',
    )
    await expect(score('x = 1', asserts, { isolation: 'strong' })).rejects.toMatchObject({
      message: expect.stringContaining('in the process of the program only'),
    })
  })

  test.for<[status: string, reply: object]>([
    [
      'runtime_error',
      { status: 'Failed', run_result: { status: 'Finished', return_code: 1, stderr: 'boom' } },
    ],
    ['runtime_error', { status: 'Failed', run_result: { status: 'Error' } }],
    ['timeout', { status: 'Failed', run_result: { status: 'TimeLimitExceeded' } }],
    ['compile_error', { status: 'Failed', compile_result: { status: 'Finished', return_code: 1 } }],
    ['compile_timeout', { status: 'Failed', compile_result: { status: 'TimeLimitExceeded' } }],
  ])('%s fails the test case', async ([status, reply]) => {
    answer = () => reply
    const { score: given, extra } = await score(program, truth)
    expect(given).toBe(0)
    expect(extra.statuses).toEqual([status, status, status, status])
  })

  test('a program that does not compile runs no further cases', async () => {
    answer = () => ({ status: 'Failed', compile_result: { status: 'Error' } })
    const many = { inputs: new Array(10).fill('1'), outputs: new Array(10).fill('1') }
    expect((await score(program, many, { max_concurrent: 1 })).extra.statuses).toEqual(
      new Array(10).fill('compile_error'),
    )
    expect(jobs).toHaveLength(1)
  })
})

describe('unit tests', () => {
  const humanEval = {
    prompt: 'def add(a, b):\n',
    entry_point: 'add',
    test: 'def check(candidate):\n    assert candidate(1, 2) == 3\n',
    canonical_solution: '    return a + b\n',
  }
  const mbpp = { test_list: ['assert add(1, 2) == 3', 'assert add(0, 0) == 0'] }
  const passed = { status: 'passed', detail: null, limit: null }
  const tested = (isolation: string, cases: object[], isolation_reason: string | null = null) => ({
    ...{ status: 'Success', isolation, isolation_reason, cases, execution_time: 0.01 },
  })

  test('of HumanEval are one case, judged in a separate process', async () => {
    answer = () => tested('strong', [passed])
    const { score: given, extra } = await score('```python\n    return a + b```', humanEval, {
      timeout: 3,
    })
    expect(given).toBe(1)
    expect(extra).toMatchObject({ isolation: 'strong', statuses: ['passed'], limits: [null] })
    expect(paths).toEqual(['/run_tests'])
    expect(jobs[0]).toEqual({
      ...{ code: '\n    return a + b', language: 'python', helpers: humanEval.prompt },
      ...{ setup: humanEval.test, cases: ['check(add)'], entry_point: 'add' },
      ...{ isolation: 'auto', run_timeout: 3, memory_limit_MB: 1024 },
    })
  })

  test('of MBPP are one case each; a failed case has a reason, or the exceeded limit', async () => {
    const cut = { status: 'timeout', detail: null, limit: 'cpu_time' }
    const wrong = { status: 'wrong_answer', detail: 'AssertionError', limit: null }
    answer = () => tested('weak', [wrong, cut], 'the tests use Node of the program')
    const { score: given, extra } = await score(program, mbpp)
    expect(given).toBe(0)
    expect(jobs[0]).toMatchObject({ cases: mbpp.test_list, entry_point: null })
    expect(extra).toMatchObject({
      ...{ isolation: 'weak', isolation_reason: 'the tests use Node of the program' },
      ...{ statuses: ['wrong_answer', 'timeout'], limits: [null, 'cpu_time'] },
      failure: 'AssertionError',
    })
    const asserts = { inputs: [null], outputs: [null], assert_case: ['assert add(1, 2) == 3'] }
    answer = () => tested('strong', [passed])
    await score(program, asserts)
    expect(jobs[1]).toMatchObject({ cases: asserts.assert_case })
  })

  test('that cannot be run fail the sample', async () => {
    answer = () => ({ status: 'TestsError', message: 'the tests use Node of the program' })
    await expect(score(program, mbpp, { isolation: 'strong' })).rejects.toBeInstanceOf(
      RuleInputError,
    )
  })

  test('run in the program’s process if the sandbox is SandboxFusion', async () => {
    answer = (job, response) => {
      if (!('cases' in job)) return finished(`printed\n${/"\\n(.+)"/.exec(job.code)?.[1]}\n`)
      response.statusCode = 404
      return {}
    }
    const { score: given, extra } = await score(program, mbpp)
    expect(given).toBe(1)
    expect(extra).toMatchObject({ isolation: 'weak' })
    expect(paths).toEqual(['/run_tests', '/run_code', '/run_code'])
    // A program that exits early does not print the token that marks a completed run.
    answer = (job, response) => {
      if (!('cases' in job)) return finished('')
      response.statusCode = 404
      return {}
    }
    expect((await score(program, mbpp)).score).toBe(0)
    await expect(score(program, mbpp, { isolation: 'strong' })).rejects.toBeInstanceOf(
      RuleInputError,
    )
  })

  test('the local sandbox gets at most twice as many concurrent calls as it has slots', async () => {
    service = { ...service, slots: 1 }
    answer = () => tested('strong', [passed, passed])
    await Promise.all([1, 2, 3, 4, 5].map(() => score(program, mbpp)))
    expect(mostOpen).toBeLessThanOrEqual(2)
  })
})

describe('a sandbox that gives no verdict fails the sample, which never scores 0', () => {
  test('a 504 is retried twice', async () => {
    let calls = 0
    const waits: number[] = []
    answer = (job, response) => {
      if (++calls < 3) {
        response.statusCode = 504
        return { busy: true }
      }
      return finished(`${job.stdin}!`)
    }
    const input = {
      dataSource: 'apps',
      solutionStr: program,
      groundTruth: one,
      extraInfo: {},
      kwargs: {},
    }
    const sleep = async (ms: number) => void waits.push(ms)
    expect((await codeRule.score(input, { sleep, service })).score).toBe(1)
    expect(waits).toEqual([1_000, 2_000])
    calls = Number.NEGATIVE_INFINITY
    await expect(codeRule.score(input, { sleep, service })).rejects.toMatchObject({
      reason: 'timeout',
    })
  })

  test.for<[reason: string, status: number, reply: unknown]>([
    ['transport', 500, { detail: 'out of order' }],
    ['rejected', 422, { detail: 'no such language' }],
    ['unparseable', 200, 'a page of HTML'],
    ['unparseable', 200, { result: 'ok' }],
    ['transport', 200, { status: 'SandboxError', message: 'no room' }],
    ['transport', 200, { status: 'Success', run_result: { status: 'Running' } }],
    ['transport', 200, { status: 'Failed' }],
  ])('%s: %d %j', async ([reason, status, reply]) => {
    answer = (_, response) => {
      response.statusCode = status
      return reply
    }
    const scored = score(program, one)
    await expect(scored).rejects.toBeInstanceOf(RuleServiceError)
    await expect(scored).rejects.toMatchObject({ reason })
  })

  test('an unreachable sandbox', async () => {
    service = { ...service, url: 'http://127.0.0.1:1' }
    const scored = score(program, one)
    await expect(scored).rejects.toMatchObject({ reason: 'transport' })
    await expect(scored).rejects.not.toThrow('127.0.0.1')
  })

  test('a sandbox that closes the connection', async () => {
    answer = (_, response) => {
      response.write('{"status":')
      response.destroy()
    }
    await expect(score(program, one)).rejects.toMatchObject({ reason: 'transport' })
  })
})

test('no more concurrent calls than the limit, over all samples', async () => {
  let release: () => void = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  let waiting = 0
  const full = new Promise<void>((resolve) => {
    answer = async (job) => {
      if (++waiting === 3) resolve()
      await gate
      return finished(`${job.stdin}!`)
    }
  })
  const scored = [1, 2, 3, 4].map(() => score(program, truth, { max_concurrent: 3 }))
  await full
  expect(open.size).toBe(3)
  release()
  for (const { score: given } of await Promise.all(scored)) expect(given).toBe(0.75)
  expect(mostOpen).toBe(3)
  expect(jobs).toHaveLength(16)
})

test('batches with different limits of one sandbox share it, each within its own limit', async () => {
  let inFlight = 0
  const most = new Map<string, number>()
  answer = async (job) => {
    most.set(job.language, Math.max(most.get(job.language) ?? 0, ++inFlight))
    await new Promise((resolve) => setTimeout(resolve, 5))
    inFlight--
    return finished(`${job.stdin}!`)
  }
  const scored = [3, 2, 3, 2, 3, 2].map((limit) =>
    score(program, truth, { max_concurrent: limit, language: `limit ${limit}` }),
  )
  for (const { score: given } of await Promise.all(scored)) expect(given).toBe(0.75)
  expect(Object.fromEntries(most)).toEqual({ 'limit 3': 3, 'limit 2': 2 })
})

test('an abort ends running and waiting calls', async () => {
  const stop = new AbortController()
  const started = new Promise<void>((resolve) => {
    answer = () => {
      resolve()
      return new Promise(() => {})
    }
  })
  const scored = score(program, truth, { max_concurrent: 1 }, stop.signal)
  await started
  stop.abort(new Error('the batch ended'))
  await expect(scored).rejects.toThrow('the batch ended')
  expect(jobs).toHaveLength(1)
  // The slots of the aborted calls are free again.
  answer = (job) => finished(`${job.stdin}!`)
  expect((await score(program, truth, { max_concurrent: 1 })).score).toBe(0.75)
})

test.for<[response: string, program: string]>([
  ['```python\na\n```\n```python\nb\n```', '\nb\n'],
  ['```python\nopen end', '\nopen end'],
  ['```\na\n```', '\na\n'],
  ['```cpp\nint a;\n```', 'int a;\n'],
  ['```c++\nint a;\n```', 'c++\nint a;\n'],
  ['``` one line ```', ' one line '],
  ['print(1)', 'print(1)'],
])('the program in %j is %j', ([response, wanted]) => {
  expect(extractProgram(response)).toBe(wanted)
})

test('test cases that cannot be used fail the sample, which never scores 0', async () => {
  const wrong = [
    undefined,
    null,
    'no JSON',
    [],
    {},
    { inputs: ['1'] },
    { inputs: ['1'], outputs: [] },
    { inputs: [], outputs: [] },
    { inputs: ['1'], outputs: ['1'], fn_name: 'f"); import os; ("' },
    { inputs: ['1'], outputs: ['1'], assert_case: [] },
    { test: 'def check(candidate): pass' },
    { test: 'assert f(1) == 2', entry_point: 'f' },
    { test_list: [] },
    { test_list: [1] },
  ]
  for (const groundTruth of wrong) {
    await expect(score(program, groundTruth), JSON.stringify(groundTruth)).rejects.toThrow(
      RuleInputError,
    )
  }
  expect(jobs).toEqual([])
  await expect(score(program, truth, { sandbox_fusion_url: 'file:///etc' })).rejects.toThrow(
    RuleInputError,
  )
})
