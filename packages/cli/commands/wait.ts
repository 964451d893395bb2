import { defineCommand } from '../command.ts'
import { wholeNumber } from '../option-values.ts'
import { batchIdOf, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

/** Waits for a batch's end. */
export const command = defineCommand({
  name: 'wait',
  summary: 'wait until a batch has ended, and tell how it did',
  usage: 'BATCH [options]',
  details: 'A service that is restarted meanwhile is waited for, up to a minute.',
  positionals: { min: 1, max: 1 },
  options: {
    timeout: {
      type: 'string',
      value: 'S',
      help: 'seconds to wait at most; then the exit code is 5',
    },
    'fail-on-failed': { type: 'boolean', help: 'exit code 4 also when a sample has failed' },
  },
  async run({ values, positionals, output, service, signal }) {
    const batchId = batchIdOf(positionals[0] as string)
    const timeout = wholeNumber('timeout', values.timeout)
    const client = await service()
    const timeoutMs = timeout === undefined ? null : timeout * 1_000
    const summary = await waitForBatch(client, batchId, output, signal, timeoutMs)
    for (const line of summaryLines(summary)) output.line(line)
    output.data(summary)
    return exitCodeOf(summary, values['fail-on-failed'] === true)
  },
})
