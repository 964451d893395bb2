import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { SampleInput, SubmitResult } from '../../../server/contract/trainer.ts'
import { defineCommand } from '../command.ts'
import { CliError, EXIT, usageError } from '../exit-codes.ts'
import { userError } from '../import/survey.ts'
import { REWARD_OPTION, readReward, splitOption, wholeNumber } from '../option-values.ts'
import { openRollouts } from '../rollouts/read-rollouts.ts'
import { AWAY_MS, exitCodeOf, summaryLines, waitForBatch } from '../wait-batch.ts'

export const command = defineCommand({
  name: 'submit',
  summary: 'submit one batch for scoring',
  usage: '(FILE | -) [options]',
  details: `FILE holds the rollouts of one step as JSON Lines, CSV, Parquet or a verl dump. Scores in the file
are ignored: all samples are scored. "-" reads a body of batches.submit as JSON from stdin; options override its fields.
Use import for several steps or both splits, to keep scores, or for more than 256 MiB.`,
  positionals: { min: 1, max: 1 },
  options: {
    run: { type: 'string', value: 'NAME', help: 'the run (default: as in the file)' },
    step: { type: 'string', value: 'N', help: 'the step (default: as in the file)' },
    split: {
      type: 'string',
      value: 'SPLIT',
      help: 'train or val (default: as in the file, else train)',
    },
    reward: REWARD_OPTION,
    'data-source': {
      type: 'string',
      value: 'NAME',
      help: 'data source of a dump that names none, for example openai/gsm8k',
    },
    'group-size': { type: 'string', value: 'N', help: 'samples per uid' },
    'deadline-ms': {
      type: 'string',
      value: 'MS',
      help: 'time limit of the batch in ms; samples without a score then fail',
    },
    key: {
      type: 'string',
      value: 'TEXT',
      help: 'idempotency key: repeating a key returns the same batch',
    },
    wait: { type: 'boolean', help: 'wait until the batch ends' },
    timeout: {
      type: 'string',
      value: 'S',
      help: 'with --wait: maximum seconds to wait; exit code 5 afterwards',
    },
    'fail-on-failed': {
      type: 'boolean',
      help: 'with --wait: exit code 4 also if a sample failed',
    },
  },
  async run({ values, positionals, output, service, signal }) {
    const path = positionals[0] as string
    const timeout = wholeNumber('timeout', values.timeout)
    const step = wholeNumber('step', values.step)
    const split = splitOption(values.split)
    const groupSize = wholeNumber('group-size', values['group-size'], 1, 100_000)
    const deadlineMs = wholeNumber('deadline-ms', values['deadline-ms'], 1)
    const given = {
      ...(values.run === undefined ? {} : { run: values.run }),
      ...(step === undefined ? {} : { step }),
      ...(split === undefined ? {} : { split }),
      ...(groupSize === undefined ? {} : { groupSize }),
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
      ...(values.reward === undefined ? {} : { reward: readReward(values.reward) }),
      ...(values.key === undefined ? {} : { idempotencyKey: values.key }),
    }
    const body = path === '-' ? bodyOfStdin() : await bodyOfFile(path, values['data-source'], given)
    const client = await service()
    const result = await client.mutate<SubmitResult>(
      'batches.submit',
      // An idempotency key makes the call safe to retry after a lost answer.
      { idempotencyKey: randomUUID(), ...body, ...given },
      { retryForMs: AWAY_MS, signal },
    )
    output.line(
      `${result.batchId}  ${result.accepted} samples in ${result.groups} groups${result.duplicate ? ', submitted earlier' : ''}`,
    )
    if (!values.wait) {
      output.data(result)
      return
    }
    const timeoutMs = timeout === undefined ? null : timeout * 1_000
    const summary = await waitForBatch(client, result.batchId, output, signal, timeoutMs)
    for (const line of summaryLines(summary)) output.line(line)
    output.data(summary)
    return exitCodeOf(summary, values['fail-on-failed'] === true)
  },
})

function bodyOfStdin(): Record<string, unknown> {
  const text = readFileSync(0, 'utf8')
  if (text.startsWith('PAR1')) {
    throw usageError('stdin is a Parquet file; give its name instead of "-".')
  }
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch (error) {
    throw usageError(`stdin is not valid JSON: ${(error as Error).message}`)
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw usageError('stdin is not a JSON object; expected a body of batches.submit')
  }
  return body as Record<string, unknown>
}

async function bodyOfFile(
  path: string,
  dataSource: string | undefined,
  given: { run?: string; step?: number; split?: 'train' | 'val' },
): Promise<Record<string, unknown>> {
  const samples: SampleInput[] = []
  let run = given.run ?? null
  let step = given.step ?? null
  let split = given.split ?? null
  try {
    const file = await openRollouts(path, { dataSource, scores: 'log' })
    for await (const rollout of file.rollouts()) {
      if (given.run === undefined) run = one('run', run, rollout.run, path)
      if (given.step === undefined) step = one('step', step, rollout.step, path)
      if (given.split === undefined) split = one('split', split, rollout.split ?? 'train', path)
      samples.push(rollout.sample)
    }
  } catch (error) {
    throw userError(error)
  }
  if (run === null) throw new CliError(EXIT.badInput, `${path} names no run: give --run NAME.`)
  if (step === null) throw new CliError(EXIT.badInput, `${path} names no step: give --step N.`)
  return { run, step, split: split ?? 'train', samples }
}

function one<T>(what: string, before: T | null, now: T | null, path: string): T | null {
  if (before !== null && now !== null && before !== now) {
    throw new CliError(
      EXIT.badInput,
      `${path} contains more than one ${what} (${before}, ${now}): use import, which creates one batch for each.`,
    )
  }
  return before ?? now
}
