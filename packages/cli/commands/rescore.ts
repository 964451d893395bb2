import { randomUUID } from 'node:crypto'
import type { SubmitResult } from '../../../server/contract/trainer.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { REWARD_OPTION, readReward } from '../option-values.ts'
import { AWAY_MS, batchIdOf, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

export const command = defineCommand({
  name: 'rescore',
  summary: 'score the rollouts of a batch with another reward, as a new batch',
  usage: 'BATCH --reward JSON [options]',
  details: 'The original batch is unchanged. The rollouts never leave the service.',
  positionals: { min: 1, max: 1 },
  options: {
    reward: { ...REWARD_OPTION, help: 'the new reward, as batches.submit takes it, or @FILE' },
    key: {
      type: 'string',
      value: 'TEXT',
      help: 'idempotency key: repeating a key returns the same batch',
    },
    wait: { type: 'boolean', help: 'wait until the batch ends' },
    'fail-on-failed': {
      type: 'boolean',
      help: 'with --wait: exit code 4 also if a sample failed',
    },
  },
  async run({ values, positionals, output, service, signal }) {
    const batchId = batchIdOf(positionals[0] as string)
    if (values.reward === undefined) throw usageError('rescore needs --reward JSON.')
    const reward = readReward(values.reward)
    const client = await service()
    const idempotencyKey = values.key ?? randomUUID()
    const result = await client.mutate<SubmitResult>(
      'batches.rescore',
      { batchId, reward, idempotencyKey },
      { retryForMs: AWAY_MS, signal },
    )
    output.line(
      `${result.batchId}  the rollouts of ${batchId}${result.duplicate ? ', started earlier' : ''}`,
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
