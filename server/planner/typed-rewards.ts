import type { TypedReward, TypedSource } from '../contract/planner.ts'
import { evenSteps, type StepRewards } from './overlap.ts'

/**
 * Returns steps whose reward durations, in ms, follow the entered distribution and include failed attempts. The same
 * seed always gives the same durations.
 */
export function typedSteps(source: TypedSource, steps: number): StepRewards[] {
  const next = uniformDraws(source.seed)
  const { reward, failedShare, maxAttempts, prompts, groupSize } = source
  return evenSteps({
    steps,
    groups: prompts,
    groupSize,
    rewardMs() {
      let tookMs = draw(reward, next)
      for (let n = 1; n < maxAttempts && failedShare > 0 && next() < failedShare; n++) {
        tookMs += draw(reward, next)
      }
      return tookMs
    },
  })
}

function draw(reward: TypedReward, next: () => number): number {
  switch (reward.kind) {
    case 'constant':
      return reward.ms
    case 'uniform':
      return reward.fromMs + (reward.toMs - reward.fromMs) * next()
    case 'lognormal':
      return reward.medianMs * Math.exp(reward.sigma * normal(next))
  }
}

/** A standard normal draw (Box–Muller). */
function normal(next: () => number): number {
  const radius = Math.sqrt(-2 * Math.log(1 - next()))
  return radius * Math.cos(2 * Math.PI * next())
}

/** Uniform draws in [0, 1): a Weyl sequence through a 32-bit finalizer (lowbias32). */
function uniformDraws(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let h = state
    h = Math.imul(h ^ (h >>> 16), 0x21f0aaad)
    h = Math.imul(h ^ (h >>> 15), 0x735a2d97)
    return ((h ^ (h >>> 15)) >>> 0) / 0x1_0000_0000
  }
}
