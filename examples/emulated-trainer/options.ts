import { parseArgs } from 'node:util'
import { type Phases, STRATEGIES, type Strategy } from '../../server/planner/overlap.ts'

/** A strategy, and how many rewards there may be at once. */
export interface Run {
  /** As it is asked for: `both@256`, `both@rm256`, `both`. */
  name: string
  strategy: Strategy
  /** Rewards at once, over all steps in flight; null: no limit. */
  concurrency: number | null
  /** Who keeps to it: the service, in what it sends (as the authors' 256 threads), or the reward-model server. */
  limitedBy: 'service' | 'server'
}

/** What is trained; all times before they are scaled. */
export interface Job {
  prompts: number
  responses: number
  miniBatches: number
  steps: number
  phases: Phases
  /** Uniform. */
  rewardMs: { fromMs: number; toMs: number }
}

/** What is to be done. */
export interface EmulationOptions {
  job: Job
  /** One emulated second takes `1000 / scale` ms. */
  scale: number
  runs: Run[]
  /** Instead of the runs: the planner against the emulator over configurations of many kinds. */
  compare: boolean
  /** The service to use; null: one is started for it. */
  url: string | null
  /** Folder for the results; those of earlier calls in it join the table. Null: they are only printed. */
  out: string | null
  json: boolean
}

const HELP = `Emulates a training job over a real reward service: rollouts, log-probs and updates are waited for, rewards are
asked for and delivered. Reports what each arrangement of the two costs a step.

  --prompts 1024 --responses 5 --mini-batches 4 --steps 7
  --rollout-s 40 --log-prob-s 43 --update-s 120     the trainer's own work a step
  --reward-s 1-40                                   how long a reward takes, uniform
  --scale 10                                        ten times as fast; the finer, the more our own cost shows
  --only barrier@256,both                           strategy, strategy@256 (256 rewards at once), strategy@rm256
                                                    (the reward-model server itself works on 256 at once)
  --compare                                         planner against emulator over 13 small configurations instead
  --out results                                     a JSON file a run, and the table of all that are there
  --url http://127.0.0.1:3000                       a service that runs; default: one of its own
  --json                                            one line of JSON a run

Strategies: ${STRATEGIES.join(', ')}.`

/** The upstream authors' experiment, in the order of their table; then without their limit. */
const USUAL = 'barrier@256,pipeline@256,off_policy@256,both@256,all@256,pipeline,off_policy,both'

/** Reads the command line. @throws Error that says what is wrong; `null`: help was asked for. */
export function readOptions(argv: readonly string[]): EmulationOptions | null {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({
    args: [...argv],
    options: {
      prompts: text,
      responses: text,
      'mini-batches': text,
      steps: text,
      'rollout-s': text,
      'log-prob-s': text,
      'update-s': text,
      'reward-s': text,
      scale: text,
      only: text,
      out: text,
      url: text,
      compare: flag,
      json: flag,
      help: flag,
    },
  })
  if (values.help) {
    console.log(HELP)
    return null
  }
  const number = (name: keyof typeof values, fallback: number, least: number) => {
    const value = Number(values[name] ?? fallback)
    if (!(value >= least)) throw new Error(`--${name} must be a number of at least ${least}`)
    return value
  }
  const count = (name: keyof typeof values, fallback: number) => {
    const value = number(name, fallback, 1)
    if (!Number.isInteger(value)) throw new Error(`--${name} must be a whole number`)
    return value
  }
  const range = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(values['reward-s'] ?? '1-40')
  if (range === null || Number(range[1]) > Number(range[2])) {
    throw new Error('--reward-s must be a range as 1-40')
  }
  return {
    job: {
      prompts: count('prompts', 1_024),
      responses: count('responses', 5),
      miniBatches: count('mini-batches', 4),
      steps: count('steps', 7),
      phases: {
        rolloutMs: number('rollout-s', 40, 0) * 1_000,
        logProbMs: number('log-prob-s', 43, 0) * 1_000,
        updateMs: number('update-s', 120, 0) * 1_000,
      },
      rewardMs: { fromMs: Number(range[1]) * 1_000, toMs: Number(range[2]) * 1_000 },
    },
    scale: number('scale', 10, 0.001),
    runs: (values.only ?? USUAL).split(',').map(readRun),
    compare: values.compare === true,
    url: values.url ?? null,
    out: values.out ?? null,
    json: values.json === true,
  }
}

/** Reads `both`, `both@256` or `both@rm256`. @throws Error that says what is wrong */
export function readRun(name: string): Run {
  const [strategy = '', at] = name.split('@')
  if (!STRATEGIES.includes(strategy as Strategy)) {
    throw new Error(`there is no strategy "${strategy}"; known: ${STRATEGIES.join(', ')}`)
  }
  const limit = at === undefined ? null : /^(rm)?([1-9]\d*)$/.exec(at)
  if (at !== undefined && limit === null) {
    throw new Error(`"${name}": what follows @ is how many rewards at once, as 256 or rm256`)
  }
  return {
    name,
    strategy: strategy as Strategy,
    concurrency: limit ? Number(limit[2]) : null,
    limitedBy: limit?.[1] ? 'server' : 'service',
  }
}
