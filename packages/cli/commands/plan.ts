import { describeIssues } from '../../../server/contract/describe-issues.ts'
import {
  type PlannedColumn,
  type PlannerDto,
  PlannerInput,
} from '../../../server/contract/planner.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import { wholeNumber } from '../option-values.ts'
import { AWAY_MS, batchIdOf } from '../wait-batch.ts'

/** Replaying takes up to 2 s; eight plans may be made before this one. */
const ANSWER_MS = 60_000
/** The async reward agent's experiment: 203 s of compute a step. How they split was not published. */
const USUAL = { rollout: '40', logProb: '43', update: '120', reward: '1-40' }

/** What overlapping rewards and training would save. */
export const command = defineCommand({
  name: 'plan',
  summary:
    'what overlapping rewards and training would save of a step, from a record or typed times',
  usage: '[--batch ID | --run NAME] [options]',
  details:
    'How long rewards take comes from a batch, from the newest steps of a run, or is typed. Every strategy is replayed under every limit. ' +
    'Times are in seconds. Without any option: the experiment of the async reward agent.',
  options: {
    batch: { type: 'string', value: 'ID', help: 'every step is as this batch was' },
    run: { type: 'string', value: 'NAME', help: 'a step a batch: the newest of this run' },
    prompts: { type: 'string', value: 'N', help: 'groups a step (default 1024)' },
    responses: { type: 'string', value: 'N', help: 'samples a group (default 5)' },
    reward: {
      type: 'string',
      value: 'TIME',
      help: `how long one takes: 20, 1-40 (uniform) or lognormal:6,0.9 (median, sigma); default ${USUAL.reward}`,
    },
    retried: { type: 'string', value: 'PERCENT', help: 'calls made again, of all (default 0)' },
    rollout: { type: 'string', value: 'S', help: `a step's rollout (default ${USUAL.rollout})` },
    'log-prob': {
      type: 'string',
      value: 'S',
      help: `log-probs of a step (default ${USUAL.logProb})`,
    },
    update: { type: 'string', value: 'S', help: `updates of a step (default ${USUAL.update})` },
    'mini-batches': { type: 'string', value: 'N', help: 'updates a step (default 4)' },
    steps: { type: 'string', value: 'N', help: 'steps (default 7)' },
    'at-once': {
      type: 'string',
      value: 'LIST',
      help: 'rewards at once on a server, "none" for no limit (default 256,none)',
    },
    servers: { type: 'string', value: 'LIST', help: 'how many servers (default 1)' },
  },
  async run({ values, output, service, signal }) {
    const given = { ...values }
    if (given.batch !== undefined && given.run !== undefined)
      throw usageError('plan takes either --batch ID or --run NAME')
    const isRecorded = given.batch !== undefined || given.run !== undefined
    for (const name of ['prompts', 'responses', 'reward', 'retried'] as const) {
      if (isRecorded && given[name] !== undefined)
        throw usageError(`--${name} is of typed rewards; --batch and --run have their own`)
    }
    const isOwnWorkTold =
      given.rollout !== undefined || given['log-prob'] !== undefined || given.update !== undefined
    if (isRecorded && !isOwnWorkTold) {
      throw usageError(
        'plan needs --rollout, --log-prob and --update: how long the trainer works a step is not recorded',
      )
    }
    // Of a record, what is not given takes no time; of the experiment, it is the experiment's.
    const phase = (name: 'rollout' | 'log-prob' | 'update', usual: string) =>
      milliseconds(name, given[name] ?? (isRecorded ? '0' : usual))
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
                reward: rewardTime(given.reward ?? USUAL.reward),
                failedShare: share(given.retried ?? '0'),
              },
      phases: {
        rolloutMs: phase('rollout', USUAL.rollout),
        logProbMs: phase('log-prob', USUAL.logProb),
        updateMs: phase('update', USUAL.update),
      },
      steps: wholeNumber('steps', given.steps, 1),
      miniBatches: wholeNumber('mini-batches', given['mini-batches'], 1),
      limits: list('at-once', given['at-once'], true),
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
      `${rewards.samples} rewards a step of ${seconds(rewards.meanMs)} s on average (half by ${seconds(rewards.p50Ms)}, slowest ${seconds(rewards.maxMs)}); ` +
        `${seconds(ownMs)} s of the trainer's own work; ${plan.steps} steps`,
    )
    for (const column of plan.columns) {
      output.line('')
      output.line(`${limitOf(column)}: ${verdictOf(column)}`)
      output.table(
        ['STRATEGY', right('S/STEP'), right('WAITING'), right('SAVES')],
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
  const at = limit === null ? 'no limit' : `${limit} at once`
  return servers === 1 ? at : `${servers} servers, ${at}`
}

function verdictOf(column: PlannedColumn): string {
  const why = column.boundBy === 'compute' ? "the trainer's own work" : 'what the rewards need'
  const bound = `no arrangement takes less than ${seconds(column.boundMs)} s, ${why}`
  return column.noGain
    ? `no gain from any strategy; ${bound}`
    : `${column.best} is the simplest of the best; ${bound}`
}

/** Three digits of a fast one, tenths of a slow one. */
function seconds(ms: number): string {
  return (ms / 1_000).toFixed(ms === 0 || ms >= 10_000 ? 1 : 3)
}

/** Numbers of one column under each other. */
function right(text: string): string {
  return text.padStart(8)
}

function milliseconds(name: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && value <= 86_400))
    throw usageError(`--${name} ${text}: seconds are expected, as 40 or 0.02`)
  return Math.round(value * 1e6) / 1e3
}

function share(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && value <= 95))
    throw usageError(`--retried ${text}: per cent from 0 to 95 are expected`)
  return value / 100
}

function rewardTime(text: string): object {
  const wrong = () =>
    usageError(
      `--reward ${text}: seconds are expected, as 20, 1-40 (uniform) or lognormal:6,0.9 (median, sigma)`,
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
