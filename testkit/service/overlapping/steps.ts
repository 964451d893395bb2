import { rollouts, type Sample, type Submit } from '../rollouts.ts'

export const BATCHES = 4
export const BATCH_SAMPLES = 2_048
export const GROUP_SIZE = 8
export const CHUNK_SAMPLES = 64

/** Response length of rollout `index`, in tokens; some are 0. */
export function lengthOf(index: number): number {
  return index % 97
}

/** A step's batch. It is deterministic, so that a restarted trainer submits the same content under the same key. */
export function stepOf(step: number): Omit<Submit, 'samples'> & { samples: Sample[] } {
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
