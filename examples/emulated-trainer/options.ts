import { parseArgs } from 'node:util'
import { type Phases, STRATEGIES, type Strategy } from '../../server/planner/overlap.ts'

/** How a strategy is run: with how many rewards at once. */
export interface Run {
  name: string
  strategy: Strategy
  /** Rewards at once, over all steps in flight; null: no limit. */
  concurrency: number | null
}

/** What is emulated; all times before they are scaled. */
export interface EmulationOptions {
  prompts: number
  responses: number
  miniBatches: number
  steps: number
  phases: Phases
  rewardMs: { fromMs: number; toMs: number }
  /** One emulated second takes `1000 / scale` ms. */
  scale: number
  runs: Run[]
  /** The service to use; null: one is started for it. */
  url: string | null
  json: boolean
}

const HELP = `Emulates a training job over a real reward service: rollouts, log-probs and updates are waited for, rewards are
asked for and delivered. Reports what each arrangement of the two costs a step.

  --prompts 1024 --responses 5 --mini-batches 4 --steps 7
  --rollout-s 40 --log-prob-s 43 --update-s 120     the trainer's own work a step
  --reward-s 1-40                                   how long a reward takes, uniform
  --scale 10                                        ten times as fast; the finer, the more our own cost shows
  --strategies barrier@256,both                     name, or name@rewards at once
  --url http://127.0.0.1:3000                       a service that runs; default: one of its own
  --json                                            one line of JSON a run

Strategies: ${STRATEGIES.join(', ')}.`

/** The upstream authors' experiment. */
const USUAL = 'barrier@256,pipeline@256,off_policy@256,both@256,pipeline,off_policy,both'

/** Reads the command line. @throws Error that says what is wrong; `null`: help was asked for. */
export function readOptions(argv: readonly string[]): EmulationOptions | null {
  const text = { type: 'string' } as const
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
      strategies: text,
      url: text,
      json: { type: 'boolean' },
      help: { type: 'boolean' },
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
    scale: number('scale', 10, 0.001),
    runs: (values.strategies ?? USUAL).split(',').map(readRun),
    url: values.url ?? null,
    json: values.json === true,
  }
}

function readRun(name: string): Run {
  const [strategy = '', at] = name.split('@')
  if (!STRATEGIES.includes(strategy as Strategy)) {
    throw new Error(`there is no strategy "${strategy}"; known: ${STRATEGIES.join(', ')}`)
  }
  const concurrency = at === undefined ? null : Number(at)
  if (concurrency !== null && !(Number.isInteger(concurrency) && concurrency > 0)) {
    throw new Error(`"${name}": what follows @ is how many rewards at once`)
  }
  return { name, strategy: strategy as Strategy, concurrency }
}
