import { boundOf, evenSteps, predict, type Workload } from '../../server/planner/overlap.ts'
import { latencyOfText } from '../../testkit/simulated-rm/latency.ts'
import { logitOf, textId } from '../../testkit/simulated-rm/text.ts'
import { type Job, type Run, readRun } from './options.ts'
import { type Emulated, emulate, type Rollouts, STREAMED_PARTS } from './trainer.ts'

/** All times are unscaled. */
export interface Compared {
  job: Job
  scale: number
  emulated: Emulated
  predicted: { stepMs: number; steadyMs: number; waitMs: number }
  /** The planner's lower bound on the step time. */
  boundMs: number
}

export interface Laboratory {
  url: string
  rm: { url: string; model: string }
}

const SEED = 7
export const RM_OPTIONS = ['--seed', String(SEED), '--draw-by', 'text']
/** Too high to be reached, for runs without a limit. */
const UNLIMITED = 100_000

/**
 * Emulates a run and predicts it with the delays that the reward-model server derives from the texts.
 * @throws when a reward is wrong, or a group is incomplete, duplicate or missing
 */
export async function conduct(
  { url, rm }: Laboratory,
  job: Job,
  run: Run,
  scale: number,
): Promise<Compared> {
  const delay = { fromMs: job.rewardMs.fromMs / scale, toMs: job.rewardMs.toMs / scale }
  await post(`${rm.url}/__control`, {
    latency: `uniform:${plain(delay.fromMs)},${plain(delay.toMs)}`,
    running: (run.limitedBy === 'server' ? run.concurrency : null) ?? UNLIMITED,
  })
  await post(`${url}/api/trpc/servers.register`, {
    name: 'emulated',
    url: rm.url,
    engine: 'vllm',
    model: rm.model,
    maxInFlight: (run.limitedBy === 'service' ? run.concurrency : null) ?? UNLIMITED,
  })
  const seen = new Set<string>()
  const emulated = await emulate({
    url,
    model: rm.model,
    name: `emulated-${run.name}-${Date.now().toString(36)}`,
    job,
    run,
    scale,
    rolloutsOf: (step) => rolloutsOf(step, job),
    onGroups(step, groups) {
      for (const { uid, samples } of groups) {
        const id = `${step} ${uid}`
        if (seen.has(id)) throw new Error(`group ${uid} of step ${step} was delivered twice`)
        seen.add(id)
        if (samples.length !== job.responses) {
          throw new Error(`group ${uid} of step ${step} has ${samples.length} members`)
        }
        for (const { index, score } of samples) {
          const right = logitOf(idOf(step, index, job), 1)
          if (score !== right) {
            throw new Error(`sample ${index} of step ${step}: ${score} is not its reward ${right}`)
          }
        }
      }
    },
  })
  if (seen.size !== job.steps * job.prompts) {
    throw new Error(`${seen.size} of ${job.steps * job.prompts} groups were delivered`)
  }
  const work = workloadOf(job, run, scale)
  const { stepMs, steadyMs, waitMs } = predict(work, run.strategy)
  return {
    job,
    scale,
    emulated,
    predicted: { stepMs, steadyMs, waitMs },
    boundMs: boundOf(work).boundMs,
  }
}

/** Runs a job without measuring it, because the service's first calls are slower. */
export async function warmUp(laboratory: Laboratory): Promise<void> {
  const job: Job = {
    prompts: 256,
    responses: 4,
    miniBatches: 4,
    steps: 3,
    phases: { rolloutMs: 0, logProbMs: 0, updateMs: 0 },
    rewardMs: { fromMs: 1, toMs: 100 },
  }
  await conduct(laboratory, job, readRun('both'), 1)
}

/** The rollouts of a step. They do not depend on the strategy, so every strategy gets the same rewards and delays. */
function rolloutsOf(step: number, { prompts, responses }: Job): Rollouts {
  return Array.from({ length: prompts * responses }, (_, i) => {
    const prompt = Math.floor(i / responses)
    return {
      uid: `p${prompt}`,
      dataSource: 'emulated',
      prompt: promptOf(step, prompt),
      response: responseOf(step, i),
    }
  })
}

function idOf(step: number, index: number, { responses }: Job): string {
  return textId(promptOf(step, Math.floor(index / responses)), responseOf(step, index))
}

function promptOf(step: number, prompt: number): string {
  return `Question ${prompt} of step ${step}.`
}

function responseOf(step: number, index: number): string {
  return `Emulated rollout ${index} of step ${step}: no model wrote it.`
}

function workloadOf(job: Job, run: Run, scale: number): Workload {
  const { phases, steps, prompts, responses, miniBatches, rewardMs } = job
  const { fromMs, toMs } = rewardMs
  const latency = { kind: 'uniform', fromMs: fromMs / scale, toMs: toMs / scale } as const
  const drawn = { latency, slowShare: 0, slowMs: 0, seed: SEED }
  return {
    phases,
    miniBatches,
    concurrency: run.concurrency,
    streamedParts: STREAMED_PARTS,
    steps: evenSteps({
      steps,
      groups: prompts,
      groupSize: responses,
      rewardMs: (step, i) => latencyOfText(drawn, idOf(step, i, job)) * scale,
    }),
  }
}

/** Writes a number without an exponent, because the simulated server does not accept exponents. */
function plain(ms: number): string {
  return ms.toFixed(4).replace(/\.?0+$/, '')
}

async function post(url: string, body: object): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`)
}
