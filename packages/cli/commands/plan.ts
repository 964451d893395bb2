import { describeIssues } from '../../../server/contract/describe-issues.ts'
import {
  type PlannedColumn,
  type PlannerDto,
  PlannerInput,
} from '../../../server/contract/planner.ts'
import { ASSUMED_PHASES, type Phases } from '../../../server/contract/strategies.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { wholeNumber } from '../option-values.ts'
import { AWAY_MS, batchIdOf } from '../wait-batch.ts'

/** Timeout of the call. A plan takes up to 2 s, and eight other plans may be queued before it. */
const ANSWER_MS = 60_000
/** Default time of one reward, in seconds, from the async reward agent's experiment (verl PR 2854). */
const USUAL_REWARD = '1-40'
const defaultOf = (phase: keyof Phases) =>
  `default: recorded, else ${ASSUMED_PHASES[phase] / 1_000}`

export const command = defineCommand({
  name: 'plan',
  summary: 'predict the step time saved by overlapping rewards and training',
  usage: '[--batch ID | --run NAME] [options]',
  details:
    'Reward times come from a batch, from the newest steps of a run, or from options. Every strategy is replayed under every limit. ' +
    'Times are in seconds. Without options, the experiment of verl PR 2854 (async reward agent) is replayed.',
  options: {
    batch: {
      type: 'string',
      value: 'ID',
      help: 'use the reward times of this batch in every step',
    },
    run: {
      type: 'string',
      value: 'NAME',
      help: 'use the reward times of the newest batches of this run, one per step',
    },
    prompts: { type: 'string', value: 'N', help: 'groups per step (default 1024)' },
    responses: { type: 'string', value: 'N', help: 'samples per group (default 5)' },
    reward: {
      type: 'string',
      value: 'TIME',
      help: `time of one reward: 20, 1-40 (uniform) or lognormal:6,0.9 (median, sigma); default ${USUAL_REWARD}`,
    },
    retried: {
      type: 'string',
      value: 'PERCENT',
      help: 'share of calls that are retried (default 0)',
    },
    rollout: {
      type: 'string',
      value: 'S',
      help: `rollout time per step (${defaultOf('rolloutMs')})`,
    },
    'log-prob': {
      type: 'string',
      value: 'S',
      help: `log-prob time per step (${defaultOf('logProbMs')})`,
    },
    update: {
      type: 'string',
      value: 'S',
      help: `update time per step (${defaultOf('updateMs')})`,
    },
    'mini-batches': { type: 'string', value: 'N', help: 'mini-batches per step (default 4)' },
    steps: { type: 'string', value: 'N', help: 'number of steps (default 7)' },
    concurrency: {
      type: 'string',
      value: 'LIST',
      help: 'limits of concurrent rewards per server to compare; "none": no limit (default: recorded, else 256; and none)',
    },
    servers: { type: 'string', value: 'LIST', help: 'server counts to compare (default 1)' },
  },
  async run({ values, output, service, signal }) {
    const given = { ...values }
    if (given.batch !== undefined && given.run !== undefined)
      throw usageError('plan takes either --batch ID or --run NAME')
    const isRecorded = given.batch !== undefined || given.run !== undefined
    for (const name of ['prompts', 'responses', 'reward', 'retried'] as const) {
      if (isRecorded && given[name] !== undefined)
        throw usageError(
          `--${name} cannot be combined with --batch or --run, whose rewards are recorded`,
        )
    }
    const phase = (name: 'rollout' | 'log-prob' | 'update') =>
      given[name] === undefined ? undefined : milliseconds(name, given[name])
    const input = PlannerInput.safeParse({
      source:
        given.batch !== undefined
          ? { kind: 'batch', batchId: batchIdOf(given.batch) }
          : given.run !== undefined
            ? { kind: 'run', run: given.run }
            : {
                kind: 'typed',
                prompts: wholeNumber('prompts', given.prompts, 1) ?? 1_024,
                groupSize: wholeNumber('responses', given.responses, 1) ?? 5,
                reward: rewardTime(given.reward ?? USUAL_REWARD),
                failedShare: share(given.retried ?? '0'),
              },
      phases: {
        rolloutMs: phase('rollout'),
        logProbMs: phase('log-prob'),
        updateMs: phase('update'),
      },
      steps: wholeNumber('steps', given.steps, 1),
      miniBatches: wholeNumber('mini-batches', given['mini-batches'], 1),
      limits: list('concurrency', given.concurrency, true),
      servers: list('servers', given.servers, false),
    })
    if (!input.success) throw usageError(describeIssues(input.error))
    const client = await service()
    const plan = await client.query<PlannerDto>('planner.plan', input.data, {
      retryForMs: AWAY_MS,
      timeoutMs: ANSWER_MS,
      signal,
    })
    output.data(plan)
    const { rewards, phases } = plan
    const ownMs = phases.rolloutMs + phases.logProbMs + phases.updateMs
    output.line(
      `${rewards.samples} rewards per step, ${seconds(rewards.meanMs)} s on average (median ${seconds(rewards.p50Ms)}, slowest ${seconds(rewards.maxMs)}); ` +
        `${seconds(ownMs)} s of trainer time; ${plan.steps} steps`,
    )
    for (const column of plan.columns) {
      output.line('')
      output.line(`${limitOf(column)}. ${verdictOf(column)}`)
      output.table(
        ['STRATEGY', right('STEP TIME, S'), right('REWARD WAIT, S'), right('SAVING')],
        column.strategies.map((one) => [
          one.strategy,
          right(seconds(one.stepMs)),
          right(seconds(one.waitMs)),
          one.strategy === 'barrier' ? '' : right(`${(100 * one.saving).toFixed(1)} %`),
        ]),
      )
    }
  },
})

function limitOf({ limit, servers }: PlannedColumn): string {
  if (limit === null) return servers === 1 ? 'No limit' : `${servers} servers without a limit`
  return servers === 1
    ? `${limit} concurrent rewards`
    : `${servers} servers, ${limit} concurrent rewards each`
}

function verdictOf(column: PlannedColumn): string {
  const why = column.boundBy === 'trainer' ? 'the trainer time' : 'the reward time'
  const advice = column.noGain
    ? 'No strategy saves 1 % or more'
    : `Recommended strategy: ${column.best}`
  return `${advice}. The step time is at least ${seconds(column.boundMs)} s, because of ${why}.`
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(ms === 0 || ms >= 10_000 ? 1 : 3)
}

function right(text: string): string {
  return text.padStart(14)
}

function milliseconds(name: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && value <= 86_400))
    throw usageError(`--${name} ${text}: expected seconds, such as 40 or 0.02`)
  return Math.round(value * 1e6) / 1e3
}

function share(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && value <= 95))
    throw usageError(`--retried ${text}: expected a percentage from 0 to 95`)
  return value / 100
}

function rewardTime(text: string): object {
  const wrong = () =>
    usageError(
      `--reward ${text}: expected seconds, such as 20, 1-40 (uniform) or lognormal:6,0.9 (median, sigma)`,
    )
  const ms = (seconds: string | undefined) => Math.round(Number(seconds) * 1e6) / 1e3
  const number = String.raw`(\d+(?:\.\d+)?)`
  const lognormal = new RegExp(`^lognormal:${number},${number}$`).exec(text)
  if (lognormal)
    return { kind: 'lognormal', medianMs: ms(lognormal[1]), sigma: Number(lognormal[2]) }
  const range = new RegExp(`^${number}-${number}$`).exec(text)
  if (range) {
    if (Number(range[1]) > Number(range[2])) throw wrong()
    return { kind: 'uniform', fromMs: ms(range[1]), toMs: ms(range[2]) }
  }
  if (!new RegExp(`^${number}$`).test(text)) throw wrong()
  return { kind: 'constant', ms: ms(text) }
}

function list(
  name: string,
  text: string | undefined,
  orNone: boolean,
): (number | null)[] | undefined {
  return text
    ?.split(',')
    .map((part) =>
      orNone && part.trim() === 'none'
        ? null
        : (wholeNumber(name, part.trim(), 1, 10_000) as number),
    )
}
