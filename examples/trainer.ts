/** A trainer's loop: hand a step's rollouts over, get the rewards back group by group as they complete. */
import { createTRPCClient, httpLink } from '@trpc/client'
import type { AppRouter } from '../server/api/root.ts'

const url = process.env.REWARDOPS_URL ?? 'http://127.0.0.1:3000'
const rewards = createTRPCClient<AppRouter>({ links: [httpLink({ url: `${url}/api/trpc` })] })

const question = { uid: 'q-1', dataSource: 'openai/gsm8k', prompt: '6 * 7?', groundTruth: '42' }
const samples = ['6 * 7 = 42\n#### 42', '6 * 7 = 41\n#### 41', 'Forty-two.', '#### 42'].map(
  (response) => ({ ...question, response }),
)

const { batchId } = await rewards.batches.submit.mutate({ run: 'my-run', step: 1, samples })
let cursor: string | null = null
for (let done = false; !done; ) {
  const query = { batchId, after: cursor, samples: 64, waitMs: 30_000 }
  const page: Awaited<ReturnType<typeof rewards.batches.next.query>> =
    await rewards.batches.next.query(query)
  for (const group of page.groups) {
    const scores = group.samples.map((sample) => sample.score ?? sample.reason)
    console.log(`group ${group.seq} (${group.uid}): ${scores.join(' ')}, mean ${group.mean}`)
  }
  ;({ cursor, done } = page)
}
console.log(`${url}/batches/${batchId}`)
