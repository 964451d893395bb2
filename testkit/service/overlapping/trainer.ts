import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createRewardOpsClient } from '../../../packages/client-typescript/src/index.ts'
import { readJournal } from './journal.ts'
import { BATCHES, CHUNK_SAMPLES, stepOf } from './steps.ts'

/**
 * A trainer process with several steps in flight, which may be killed and restarted at any moment. It writes each
 * mini-batch that it trained on as one line of its journal, with the cursor after it.
 */
const { values } = parseArgs({
  options: { url: { type: 'string' }, journal: { type: 'string' } },
})
const { url, journal } = values as { url: string; journal: string }
const before = readJournal(journal)
const rewards = createRewardOpsClient({ url })

await Promise.all(
  Array.from({ length: BATCHES }, async (_, step) => {
    const pipeline = rewards.computeRewardPipeline(stepOf(step), {
      after: before.cursors.get(step) ?? null,
    })
    for await (const { groups, cursor, remaining } of pipeline.get(CHUNK_SAMPLES)) {
      const trained = groups.map(({ uid, seq, samples }) => ({
        uid,
        seq,
        samples: samples.map(({ index, score, position }) => ({ index, score, position })),
      }))
      appendFileSync(journal, `${JSON.stringify({ step, cursor, remaining, groups: trained })}\n`)
    }
  }),
)
