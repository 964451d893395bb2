/**
 * Prints what a pick costs: `node server/router/testing/policy-cost.ts`. Run by Node itself, because a test runner's
 * rewritten imports are five times as slow.
 */
import type { PolicyServer } from '../policies/policy.ts'
import { POLICY_NAMES, policyNamed } from '../policies/registry.ts'

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

const rows = Array.from({ length: 64 }, (_, i) => ({
  tokens: 20 + i * 7,
  group: `group-${i >> 3}`,
  key: `row-${i}`,
}))

let picked = 0
for (const name of POLICY_NAMES) {
  const told = [8, 64].flatMap((count) =>
    [true, false].map((all) => {
      const policy = policyNamed(name, { seed: 1 })
      const candidates = servers(count, (i) => all || i % 2 === 0)
      let bestNs = Number.POSITIVE_INFINITY
      for (let round = 0; round <= ROUNDS; round++) {
        const startedAtMs = performance.now()
        for (let i = 0; i < CALLS; i++) {
          picked += policy.pick(candidates, rows[i & 63] as (typeof rows)[number]).id
        }
        bestNs = Math.min(bestNs, ((performance.now() - startedAtMs) / CALLS) * 1e6)
      }
      return `${count} servers${all ? '' : ', half unmeasured'}: ${Math.round(bestNs)} ns`
    }),
  )
  console.info(`${name.padEnd(16)} ${told.join(' · ')}`)
}
if (picked === 0) throw new Error('nothing was picked')
