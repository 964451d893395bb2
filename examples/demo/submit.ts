import type { TRPCClient } from '@trpc/client'
import type { Rollout } from '../../packages/cli/rollouts/read-rollouts.ts'
import type { AppRouter } from '../../server/api/root.ts'
import type { RewardSpec, SampleInput } from '../../server/contract/trainer.ts'

export type Client = TRPCClient<AppRouter>

export interface StepOfRollouts {
  run: string
  step: number
  split: 'train' | 'val'
  samples: SampleInput[]
  /** Null when groups differ in size. */
  groupSize: number | null
}

export function bySteps(rollouts: readonly Rollout[], run: string): StepOfRollouts[] {
  const steps = new Map<string, StepOfRollouts>()
  for (const rollout of rollouts) {
    const name = rollout.run ?? run
    const number = rollout.step ?? 1
    const split = rollout.split ?? 'train'
    const key = `${number} ${split} ${name}`
    let step = steps.get(key)
    if (!step) {
      step = { run: name, step: number, split, samples: [], groupSize: null }
      steps.set(key, step)
    }
    step.samples.push(rollout.sample)
  }
  for (const step of steps.values()) {
    const sizes = new Map<string, number>()
    for (const { uid } of step.samples) sizes.set(uid, (sizes.get(uid) ?? 0) + 1)
    const distinct = new Set(sizes.values())
    if (distinct.size === 1) step.groupSize = [...distinct][0]!
  }
  return [...steps.values()]
}

/** Maximum size of a request's samples: far below the limit of 256 MiB, and small enough to show progress. */
const MAX_BLOCK_BYTES = 32 * 1024 * 1024

export async function submitStep(
  client: Client,
  step: StepOfRollouts,
  run: string,
  reward: Partial<RewardSpec>,
): Promise<string> {
  const { step: number, split, groupSize } = step
  const envelope = { run, step: number, split, groupSize, reward }
  const blocks = blocksOf(step.samples)
  if (blocks.length === 1) {
    const { batchId } = await client.batches.submit.mutate({ ...envelope, samples: step.samples })
    return batchId
  }
  const { batchId } = await client.batches.submit.mutate({ ...envelope, samples: [], open: true })
  let startIndex = 0
  for (const samples of blocks) {
    await client.batches.append.mutate({ batchId, startIndex, samples })
    startIndex += samples.length
  }
  await client.batches.close.mutate({ batchId })
  return batchId
}

function blocksOf(samples: readonly SampleInput[]): SampleInput[][] {
  const blocks: SampleInput[][] = [[]]
  let bytes = 0
  for (const sample of samples) {
    // Characters instead of bytes are accurate enough for a limit eight times below the service's.
    const size = sample.response.length + sample.prompt.length + 500
    if (bytes + size > MAX_BLOCK_BYTES && bytes > 0) {
      blocks.push([])
      bytes = 0
    }
    blocks.at(-1)!.push(sample)
    bytes += size
  }
  return blocks
}
