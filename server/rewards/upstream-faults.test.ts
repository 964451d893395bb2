/**
 * Faults of verl's reward loop (docs/maintainers/upstream-faults.md) that can be tested in one process. The tests of
 * other faults need a whole service; this file checks that those tests exist.
 */
import { existsSync, readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { truthOf } from '../../testkit/rules/rule-cases.ts'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { answer, hangs, scores } from '../engines/testing/fake-server.ts'
import { Harness, until } from '../router/testing/harness.ts'
import type { FunctionCaller } from './functions/function-caller.ts'
import { JudgeParser } from './judge/parser-spec.ts'
import { readReply } from './judge/read-reply.ts'
import { localCallLimits } from './limits/call-limits.ts'
import { managerNamed, managerNames } from './managers/registry.ts'
import { listRules } from './rules/registry.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  await Promise.all(harnesses.splice(0).map((harness) => harness.close()))
})

function harness(): Harness {
  const made = new Harness()
  harnesses.push(made)
  return made
}

const reward: ResolvedReward = {
  kind: 'rule',
  manager: 'naive',
  model: null,
  kwargs: {},
  timeoutMs: 20_000,
  maxAttempts: 4,
  maxConcurrency: null,
  onFailure: { policy: 'null' },
}

describe('calling a server', () => {
  test('a request that is refused costs one call and fails with the message of the server', async () => {
    const h = harness()
    const [server] = await h.serve([
      answer(400, { message: "This model's maximum context length is 4096 tokens" }),
    ])
    const result = await h.score({ maxAttempts: 16 })
    expect(result).toMatchObject({ ok: false, reason: 'context_exceeded' })
    expect(!result.ok && result.detail).toContain('maximum context length')
    expect(server?.calls).toHaveLength(1)
  })

  test('a failed sample leaves its siblings their scores', async () => {
    const h = harness()
    await h.serve([
      (call, response) =>
        (call.body.includes('poison') ? answer(400, 'no') : scores(0.5))(call, response),
    ])
    const input = { prompt: 'Q', response: 'poison' }
    const results = await Promise.all([h.score(), h.score({ input }), h.score()])
    expect(results.map((result) => result.ok)).toEqual([true, false, true])
  })

  test('a discriminative model’s outcome has the shape of a rule’s, extra info included', async () => {
    const h = harness()
    await h.serve([scores(0.25)])
    for (const name of managerNames()) {
      const manager = managerNamed(name)
      const sample = {
        dataSource: 'openai/gsm8k',
        prompt: 'Q',
        solutionStr: '#### 72',
        groundTruth: '72',
        extraInfo: {},
      }
      const byModel = await manager.run(sample, {
        reward: { ...reward, kind: 'model', model: 'rm' },
        router: h.router,
        // No function is called, because a model scores.
        functions: {} as FunctionCaller,
        limits: localCallLimits(),
        sandboxes: {} as never,
        signal: undefined,
        urgent: false,
        run: 'r',
        group: undefined,
        key: 'k',
        priority: 0,
        deadlineMs: undefined,
      })
      const byRule = manager.runRule(sample, reward)
      expect(byModel).toMatchObject({ ok: true, score: 0.25 })
      // Only a rule has a verdict.
      const { verdict: _, ...shape } = { verdict: null, ...byRule }
      expect(Object.keys(byModel)).toEqual(expect.arrayContaining(Object.keys(shape)))
    }
  })

  test('an unanswered call ends in time, and calls never exceed the slots', async () => {
    const h = harness()
    const [server] = await h.serve([hangs], 4)
    const results = await Promise.all(
      Array.from({ length: 4 }, () => h.score({ timeoutMs: 200, maxAttempts: 1 })),
    )
    expect(results.every((result) => !result.ok && result.reason === 'timeout')).toBe(true)
    expect(server?.maxInFlight).toBeLessThanOrEqual(4)
  })

  test('connections are reused: a hundred sequential calls need one', async () => {
    const h = harness()
    const seen = new Set<unknown>()
    await h.serve([
      (call, response) => {
        seen.add(response.socket)
        scores(1)(call, response)
      },
    ])
    for (let at = 0; at < 100; at++) expect((await h.score()).ok).toBe(true)
    expect(seen.size).toBe(1)
  })

  test('a retry is sent to another server than the failed one', async () => {
    const h = harness()
    const [broken, good] = await h.serve([answer(500, 'no'), scores(1)])
    const results = await Promise.all(Array.from({ length: 8 }, () => h.score()))
    for (const result of results) {
      expect(result.ok).toBe(true)
      const servers = result.attempts.map(({ serverId }) => serverId)
      expect(new Set(servers).size).toBe(servers.length)
    }
    expect(good?.calls).toHaveLength(8)
    expect(broken?.calls.length).toBeLessThan(9)
  })

  test('sequential calls are not all sent to the first server', async () => {
    const h = harness()
    const servers = await h.serve([scores(1), scores(1)])
    for (let at = 0; at < 20; at++) await h.score()
    for (const server of servers) expect(server.calls.length).toBeGreaterThanOrEqual(5)
  })

  test('counters return to 0 after failures and disconnected callers', async () => {
    const h = harness()
    const [server] = await h.serve([answer(503, 'busy')])
    await Promise.all(Array.from({ length: 5 }, () => h.score({ maxAttempts: 1, timeoutMs: 500 })))
    expect(h.stats().inFlight).toBe(0)
    if (server) server.handler = hangs
    const abort = new AbortController()
    const left = Promise.all(Array.from({ length: 5 }, () => h.score({ signal: abort.signal })))
    await until(() => h.stats().inFlight > 0)
    abort.abort()
    expect((await left).every((result) => !result.ok && result.reason === 'cancelled')).toBe(true)
    await until(() => h.stats().inFlight === 0)
  })
})

describe('scoring', () => {
  test('no rule and no manager changes a sample’s extra info', () => {
    const extraInfo = Object.freeze({ nested: Object.freeze({ a: 1 }), num_turns: 3 })
    for (const name of managerNames()) {
      for (const { name: rule, dataSources } of listRules()) {
        const [dataSource = 'any'] = dataSources
        const outcome = managerNamed(name).runRule(
          {
            dataSource: dataSource.replace('*', ''),
            prompt: 'Q',
            solutionStr: '#### 1 \\boxed{1} Answer: 1 <answer>1</answer>',
            groundTruth: truthOf(rule, '1'),
            extraInfo,
          },
          { ...reward, rule },
        )
        // A write to a frozen object throws in a module and would fail the sample.
        expect(outcome.ok, rule).toBe(true)
      }
    }
    expect(extraInfo).toEqual({ nested: { a: 1 }, num_turns: 3 })
  })

  test('the reply of a model is parsed, never executed', () => {
    const content = "(globalThis.q29 = 7, '[[7]]'); {globalThis.q29 = 7} __import__('os')"
    for (const kind of ['bracketed', 'number', 'boxed', 'json', 'verdict'] as const) {
      readReply({ content, logprobs: null }, JudgeParser.parse({ kind }))
    }
    expect(globalThis).not.toHaveProperty('q29')
  })

  test('a verdict includes the answer it rests on', () => {
    const verdict = (dataSource: string, solutionStr: string, groundTruth: string) => {
      const sample = { dataSource, prompt: 'Q', solutionStr, groundTruth, extraInfo: {} }
      const outcome = managerNamed('naive').runRule(sample, reward)
      return outcome.ok ? { score: outcome.score, ...outcome.extra } : outcome
    }
    // Scored as in verl; the extra info shows that no answer was found.
    expect(verdict('math_dapo', 'no answer', '[INVALID]')).toMatchObject({
      score: 1,
      pred: '[INVALID]',
    })
    expect(verdict('math_dapo', 'Answer: 1,2', '12')).toMatchObject({ score: 1, pred: '12' })
  })
})

describe('docs/maintainers/upstream-faults.md', () => {
  const root = new URL('../../', import.meta.url)
  const rows = readFileSync(new URL('docs/maintainers/upstream-faults.md', root), 'utf8')
    .split('\n')
    .filter((line) => /^\| Q\d+ /.test(line))

  test('has an entry for each of the thirty, in order', () => {
    expect(rows.map((row) => /^\| (Q\d+) /.exec(row)?.[1])).toEqual(
      Array.from({ length: 30 }, (_, at) => `Q${at + 1}`),
    )
  })

  test('names tests that exist', () => {
    let named = 0
    for (const row of rows) {
      for (const [, file = '', title = ''] of row.matchAll(/`([^`]+\.test\.ts)` “([^”]+)”/g)) {
        named++
        expect(existsSync(new URL(file, root)), file).toBe(true)
        expect(readFileSync(new URL(file, root), 'utf8'), row).toContain(title)
      }
    }
    expect(named).toBeGreaterThan(25)
  })
})
