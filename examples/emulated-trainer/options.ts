import { parseArgs } from 'node:util'
import { type Phases, STRATEGIES, type Strategy } from '../../server/planner/overlap.ts'

export interface Run {
  /** As given on the command line: `both@256`, `both@rm256`, `both`. */
  name: string
  strategy: Strategy
  /** Maximum number of concurrent rewards over all steps in flight; null if there is no limit. */
  concurrency: number | null
  /** Where the limit applies: in the service (like the 256 threads of verl PR 2854) or in the reward-model server. */
  limitedBy: 'service' | 'server'
}

/** All times are unscaled. */
export interface Job {
  prompts: number
  responses: number
  miniBatches: number
  steps: number
  phases: Phases
  /** Bounds of a uniform distribution. */
  rewardMs: { fromMs: number; toMs: number }
}

export interface EmulationOptions {
  job: Job
  /** One emulated second takes `1000 / scale` ms. */
  scale: number
  runs: Run[]
  /** Runs the configurations of `comparison.ts` instead of `job` and `runs`. */
  compare: boolean
  /** Null starts a service. */
  url: string | null
  /** Folder for the results; null only prints them. The folder's table includes earlier runs. */
  out: string | null
  json: boolean
}

const HELP = `Emulates a training job with a real reward service: sleeps for rollouts, log-probs and updates, and requests real
rewards. Prints the step time of each strategy.

  --prompts 1024 --responses 5 --mini-batches 4 --steps 7
  --rollout-s 40 --log-prob-s 43 --update-s 120     seconds per step without rewards
  --reward-s 1-40                                   seconds per reward, uniformly distributed
  --scale 10                                        speed-up; the higher, the larger the service's share of a step
  --only barrier@256,both                           runs: strategy, strategy@256 (256 concurrent rewards, limited by
                                                    the service), strategy@rm256 (limited by the reward-model server)
  --compare                                         compares planner and emulator over 13 small configurations instead
  --out results                                     writes a JSON file per run, and a table of all runs in the folder
  --url http://127.0.0.1:3000                       uses a running service; default: starts one
  --json                                            prints one line of JSON per run

Strategies: ${STRATEGIES.join(', ')}.`

/**
 * The strategies of the experiment in verl PR 2854, and `all`, with the experiment's limit of 256 concurrent rewards;
 * then three strategies without a limit.
 */
const USUAL = 'barrier@256,pipeline@256,off_policy@256,both@256,all@256,pipeline,off_policy,both'

/** Prints the help and returns null for --help. @throws Error naming the problem */
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
    throw new Error('--reward-s must be a range such as 1-40')
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

export function readRun(name: string): Run {
  const [strategy = '', at] = name.split('@')
  if (!STRATEGIES.includes(strategy as Strategy)) {
    throw new Error(`there is no strategy "${strategy}"; known: ${STRATEGIES.join(', ')}`)
  }
  const limit = at === undefined ? null : /^(rm)?([1-9]\d*)$/.exec(at)
  if (at !== undefined && limit === null) {
    throw new Error(
      `"${name}": after @, expected a number of concurrent rewards such as 256 or rm256`,
    )
  }
  return {
    name,
    strategy: strategy as Strategy,
    concurrency: limit ? Number(limit[2]) : null,
    limitedBy: limit?.[1] ? 'server' : 'service',
  }
}
