import { type Job, type Run, readRun } from './options.ts'

export interface Configuration {
  name: string
  job: Job
  run: Run
}

/**
 * A small job: 80 s of compute per step and 96 prompts × 4 responses. At a scale of 1:10, a run of three steps takes
 * about half a minute.
 */
const USUAL: Job = {
  prompts: 96,
  responses: 4,
  miniBatches: 4,
  steps: 3,
  phases: { rolloutMs: 24_000, logProbMs: 16_000, updateMs: 40_000 },
  rewardMs: { fromMs: 1_000, toMs: 30_000 },
}

/**
 * Rewards as fast as those of a rule, so no strategy gains anything. The steps are long (150 s, or 15 s at a scale of
 * 1:10) because the service takes about 0.15 s per step at any scale, which is 1 % of a step.
 */
const MILLISECONDS: Partial<Job> = {
  rewardMs: { fromMs: 2, toMs: 20 },
  prompts: 48,
  steps: 2,
  phases: { rolloutMs: 40_000, logProbMs: 30_000, updateMs: 80_000 },
}

/**
 * Covers all strategies, concurrency limits in the service and in the server, rewards from milliseconds to longer than
 * a step, many mini-batches, large groups, and other phase lengths. All runs together take about eight minutes at a
 * scale of 1:10.
 */
export const CONFIGURATIONS: readonly Configuration[] = [
  configuration('barrier'),
  configuration('streaming'),
  configuration('pipeline'),
  configuration('both'),
  configuration('barrier@64'),
  configuration('pipeline@64'),
  configuration('off_policy@64'),
  configuration('both@64'),
  configuration('all@rm64'),
  configuration('barrier', MILLISECONDS, 'ms rewards'),
  configuration('both', MILLISECONDS, 'ms rewards'),
  configuration(
    'both',
    { rewardMs: { fromMs: 20_000, toMs: 120_000 }, prompts: 48 },
    'longer than a step',
  ),
  configuration(
    'pipeline@96',
    {
      prompts: 32,
      responses: 16,
      miniBatches: 8,
      phases: { rolloutMs: 10_000, logProbMs: 10_000, updateMs: 60_000 },
    },
    'groups of 16, 8 mini-batches',
  ),
]

function configuration(run: string, job: Partial<Job> = {}, note = ''): Configuration {
  return {
    name: note === '' ? run : `${run}, ${note}`,
    job: { ...USUAL, ...job },
    run: readRun(run),
  }
}
