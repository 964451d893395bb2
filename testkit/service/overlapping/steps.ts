import { rollouts, type Submit } from '../rollouts.ts'

export const BATCHES = 4
export const BATCH_SAMPLES = 2_048
export const GROUP_SIZE = 8
/** A mini-batch of the trainer. */
export const CHUNK_SAMPLES = 64

/** Tokens of a rollout: some are empty. */
export function lengthOf(index: number): number {
  return index % 97
}

/** A step's batch: the same whoever makes it, so that a restarted trainer hands over the same under the same key. */
export function stepOf(step: number): Submit {
  const samples = rollouts(BATCH_SAMPLES, GROUP_SIZE, `step-${step}`)
  return {
    run: 'overlapping',
    step,
    groupSize: GROUP_SIZE,
    reward: { model: 'simulated-rm' },
    idempotencyKey: `overlapping/${step}`,
    samples: samples.map((one, index) => ({ ...one, responseLength: lengthOf(index) })),
  }
}
