/** A training loop: submits a step's rollouts and trains on mini-batches as their rewards arrive. */
import { createRewardOpsClient } from '../packages/client-typescript/src/index.ts'

const url = process.env.REWARDOPS_URL ?? 'http://127.0.0.1:3000'
const rewards = createRewardOpsClient({ url, apiKey: process.env.REWARDOPS_API_KEY })

const question = { uid: 'q-1', dataSource: 'openai/gsm8k', prompt: '6 * 7?', groundTruth: '42' }
const samples = ['6 * 7 = 42\n#### 42', '6 * 7 = 41\n#### 41', 'Forty-two.', '#### 42'].map(
  (response) => ({ ...question, response }),
)

try {
  await rewards.connect()
  const pipeline = rewards.computeRewardPipeline({ run: 'my-run', step: 1, samples })
  for await (const chunk of pipeline.get(64)) {
    for (const group of chunk.groups) {
      const scores = group.samples.map((sample) => sample.score ?? sample.reason)
      console.log(`group ${group.seq} (${group.uid}): ${scores.join(' ')}, mean ${group.mean}`)
    }
    // Train on the chunk here. Store chunk.cursor with the checkpoint to continue there after a restart.
  }
  console.log(`${url}/batches/${(await pipeline.accepted).batchId}`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
