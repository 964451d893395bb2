import { defineCommand } from '../command.ts'
import { wholeNumber } from '../option-values.ts'
import { batchIdOf, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

export const command = defineCommand({
  name: 'wait',
  summary: 'wait until a batch ends, and print its summary',
  usage: 'BATCH [options]',
  details: 'If the service restarts, the command keeps trying to reach it for up to a minute.',
  positionals: { min: 1, max: 1 },
  options: {
    timeout: {
      type: 'string',
      value: 'S',
      help: 'maximum seconds to wait; exit code 5 afterwards',
    },
    'fail-on-failed': { type: 'boolean', help: 'exit code 4 also if a sample failed' },
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
