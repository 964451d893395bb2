/**
 * Prints the cost of the router's components: `node server/router/testing/router-cost.ts`. It runs in plain Node,
 * because a test runner rewrites imports, which makes the code five times as slow.
 */

import { POLICY_NAMES } from '../../contract/pools.ts'
import { AdaptiveLimit } from '../concurrency-limit.ts'
import { type FairItem, FairQueue } from '../fair-queue.ts'
import type { PolicyServer } from '../policies/policy.ts'
import { policyNamed } from '../policies/registry.ts'
import { ServerRating } from '../server-rating.ts'

const CALLS = 50_000
const ROUNDS = 5

function servers(count: number, measured: (i: number) => boolean): PolicyServer[] {
  return Array.from({ length: count }, (_, i) => ({
    id: i + 1,
    weight: 1,
    inFlight: (i * 5) % 16,
    slots: 64,
    workTokens: ((i * 37) % 64) * 100,
    tokensPerSecond: measured(i) ? 1_000.5 + ((i * 13) % 7) : null,
    peakMsPerKtok: measured(i) ? 20.5 + ((i * 11) % 5) : null,
    externalQueue: 0,
  }))
}

const samples = Array.from({ length: 64 }, (_, i) => ({
  tokens: 20 + i * 7,
  group: `group-${i >> 3}`,
  key: `sample-${i}`,
}))

console.info('policies, per pick')
let picked = 0
for (const name of POLICY_NAMES) {
  const label = [8, 64].flatMap((count) =>
    [true, false].map((all) => {
      const policy = policyNamed(name, { seed: 1 })
      const candidates = servers(count, (i) => all || i % 2 === 0)
      let bestNs = Number.POSITIVE_INFINITY
      for (let round = 0; round <= ROUNDS; round++) {
        const startedAtMs = performance.now()
        for (let i = 0; i < CALLS; i++) {
          picked += policy.pick(candidates, samples[i & 63] as (typeof samples)[number]).id
        }
        bestNs = Math.min(bestNs, ((performance.now() - startedAtMs) / CALLS) * 1e6)
      }
      return `${count} servers${all ? '' : ', half unmeasured'}: ${Math.round(bestNs)} ns`
    }),
  )
  console.info(`  ${name.padEnd(16)} ${label.join(' · ')}`)
}
if (picked === 0) throw new Error('nothing was picked')

function costNs(count: number, work: () => void): number {
  let bestNs = Number.POSITIVE_INFINITY
  for (let round = 0; round <= ROUNDS; round++) {
    const startedAtMs = performance.now()
    work()
    bestNs = Math.min(bestNs, ((performance.now() - startedAtMs) / count) * 1e6)
  }
  return Math.round(bestNs)
}

const WAITING = 10_000
console.info(`the fair queue, ${WAITING} samples`)
for (const [label, groups, runs] of [
  ['no groups, one run', false, 1],
  ['groups of 8, one run', true, 1],
  ['groups of 8, 20 runs', true, 20],
] as const) {
  const items: FairItem[] = Array.from({ length: WAITING }, (_, i) => ({
    tokens: 20 + ((i * 7919) % 3_001),
    run: `run ${(i >> 3) % runs}`,
    priorityClass: 'step',
    deadlineAtMs: Number.POSITIVE_INFINITY,
    group: groups ? `group ${i >> 3}` : undefined,
  }))
  const queue = new FairQueue<FairItem>()
  const both = costNs(WAITING, () => {
    for (const item of items) queue.push(item)
    for (let i = 0; i < WAITING; i++) queue.take()
  })
  const removed = costNs(WAITING, () => {
    for (const item of items) queue.push(item)
    for (const item of items) queue.remove(item)
  })
  console.info(`  ${label.padEnd(22)} push and take: ${both} ns · push and remove: ${removed} ns`)
}

const rating = new ServerRating()
const limit = new AdaptiveLimit({ initial: 8, min: 4, max: 96, fixed: false })
let nowMs = 0
const ended = costNs(CALLS, () => {
  for (let i = 0; i < CALLS; i++) {
    nowMs += 0.5
    rating.began(8, 8)
    rating.completed(nowMs, 500 + (i % 700), 8 + ((i * 7_919) % 100))
    if (i % 32 === 0) rating.expectedMs(500)
    limit.dispatched(nowMs, limit.limit)
    limit.completed(nowMs, 500 + (i % 700), true, 8 + ((i * 7_919) % 100))
  }
})
console.info(`rating and limit, per sample: ${ended} ns`)
