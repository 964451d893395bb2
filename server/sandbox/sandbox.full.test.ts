import { availableParallelism, loadavg } from 'node:os'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RunTestsReply } from '../contract/sandbox.ts'
import type { PythonRuns } from './python-runs.ts'
import { CHEATED_TESTS, CHEATS } from './testing/cheats.ts'
import {
  brokenSolutionOf,
  hasPassed,
  humanEval,
  judged,
  python,
  testRuns,
  testsOf,
} from './testing/programs.ts'

const SLOTS = availableParallelism()
const RATE_RUNS = 400

let runs: PythonRuns

beforeAll(async () => {
  if (!python.ok) return
  runs = testRuns(SLOTS)
  await runs.start()
})
afterAll(() => runs?.close())

async function each<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let at = 0
  const next = async () => {
    for (let mine = at++; mine < items.length; mine = at++) {
      results[mine] = await act(items[mine] as T)
    }
  }
  await Promise.all(Array.from({ length: SLOTS }, next))
  return results
}

const isStrong = (reply: RunTestsReply) =>
  reply.status === 'Success' && reply.isolation === 'strong'

const problems = humanEval()

test.skipIf(!python.ok || problems === null)(
  'all 164 solutions of HumanEval pass in strong isolation, and 164 broken ones fail',
  async () => {
    const all = problems ?? []
    expect(all).toHaveLength(164)
    const right = await each(all, (one) =>
      judged(runs, { ...testsOf(one), code: one.canonical_solution }),
    )
    expect(all.filter((_, at) => !hasPassed(right[at] as RunTestsReply))).toEqual([])
    expect(right.filter(isStrong)).toHaveLength(164)
    const broken = await each(all, (one) =>
      judged(runs, { ...testsOf(one), code: brokenSolutionOf(one) }),
    )
    expect(all.filter((_, at) => hasPassed(broken[at] as RunTestsReply))).toEqual([])
    expect(broken.filter(isStrong)).toHaveLength(164)
  },
  600_000,
)

test.skipIf(!python.ok)(
  'no cheat passes in strong isolation',
  async () => {
    const passing = async (isolation: 'strong' | 'weak') => {
      const found = await each(Object.entries(CHEATS), async ([name, code]) => {
        const limits = { run_timeout: 2, memory_limit_MB: 256 }
        const reply = await judged(runs, { ...CHEATED_TESTS, ...limits, code, isolation })
        return hasPassed(reply) ? [name] : []
      })
      return found.flat()
    }
    expect(Object.keys(CHEATS).length).toBeGreaterThanOrEqual(40)
    expect(await passing('strong')).toEqual([])
    const weak = await passing('weak')
    console.info(`${weak.length} of ${Object.keys(CHEATS).length} cheats pass in weak isolation:`)
    console.info(weak.map((name) => `- ${name}`).join('\n'))
    // The corpus is useful only if many of its cheats pass in weak isolation.
    expect(weak.length).toBeGreaterThan(10)
  },
  600_000,
)

test.skipIf(!python.ok)(
  'prints programs per second',
  async () => {
    const program = { code: 'def f(x): return x + 1', cases: ['assert f(1) == 2'] }
    for (const isolation of ['strong', 'weak'] as const) {
      const startedMs = performance.now()
      const replies = await each(new Array(RATE_RUNS).fill(program), (one) =>
        judged(runs, { ...one, isolation }),
      )
      const rate = (RATE_RUNS / (performance.now() - startedMs)) * 1_000
      const load = loadavg()[0]?.toFixed(1)
      console.info(`${isolation}: ${rate.toFixed(0)} programs/s on ${SLOTS} cores, load ${load}`)
      expect(replies.every(hasPassed)).toBe(true)
    }
  },
  600_000,
)
