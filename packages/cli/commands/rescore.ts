import { randomUUID } from 'node:crypto'
import type { SubmitResult } from '../../../server/contract/trainer.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { REWARD_OPTION, readReward } from '../option-values.ts'
import { AWAY_MS, batchIdOf, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

/** The same rollouts by another reward. */
export const command = defineCommand({
  name: 'rescore',
  summary: 'score the rollouts of a batch by another reward, as a new batch',
  usage: 'BATCH --reward JSON [options]',
  details: 'The first batch stays as it is. The rollouts never leave the service.',
  positionals: { min: 1, max: 1 },
  options: {
    reward: { ...REWARD_OPTION, help: 'the new reward, as batches.submit takes it, or @FILE' },
    key: {
      type: 'string',
      value: 'TEXT',
      help: 'idempotency key: the same key again gives the same batch',
    },
    wait: { type: 'boolean', help: 'wait for its end' },
    'fail-on-failed': {
      type: 'boolean',
      help: 'with --wait: exit code 4 also when a sample has failed',
    },
  },
  async run({ values, positionals, output, service, signal }) {
    const batchId = batchIdOf(positionals[0] as string)
    if (values.reward === undefined)
      throw usageError('rescore needs --reward JSON: what is it to be scored by?')
    const reward = readReward(values.reward)
    const client = await service()
    const idempotencyKey = values.key ?? randomUUID()
    const result = await client.mutate<SubmitResult>(
      'batches.rescore',
      { batchId, reward, idempotencyKey },
      { retryForMs: AWAY_MS, signal },
    )
    output.line(
      `${result.batchId}  the rollouts of ${batchId}${result.duplicate ? ', begun before' : ''}`,
    )
    if (!values.wait) {
      output.data(result)
      return
    }
    const summary = await waitForBatch(client, result.batchId, output, signal, null)
    for (const line of summaryLines(summary)) output.line(line)
    output.data(summary)
    return exitCodeOf(summary, values['fail-on-failed'] === true)
  },
})
