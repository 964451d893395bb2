import { setTimeout as sleep } from 'node:timers/promises'
import { createTRPCClient, httpLink } from '@trpc/client'
import type { AppRouter } from '../../server/api/root.ts'
import type { PlannedSpan } from '../../server/contract/planner.ts'
import type { GroupResult } from '../../server/contract/trainer.ts'
import { traitsOf } from '../../server/planner/overlap.ts'
import type { Job, Run } from './options.ts'

/** The result of an emulated run. Times are in unscaled ms. */
export interface Emulated {
  run: Run
  totalMs: number
  stepMs: number
  /** Time per step in the steady state, as `Prediction.steadyMs`. */
  steadyMs: number
  waitMs: number
  spans: PlannedSpan[]
  groups: number
  samples: number
}

export type Rollouts = { uid: string; dataSource: string; prompt: string; response: string }[]

export interface Emulation {
  url: string
  model: string
  name: string
  job: Job
  run: Run
  /** One emulated second takes `1000 / scale` ms. */
  scale: number
  rolloutsOf(step: number): Rollouts
  onGroups?(step: number, groups: GroupResult[]): void
}

export const STREAMED_PARTS = 8

/**
 * Emulates a trainer without a GPU: sleeps for the GPU phases, and requests real rewards by `batches.submit`, `append`,
 * `close` and `next`.
 * @throws when the service refuses a call, or a batch ends with a sample missing
 */
export async function emulate(emulation: Emulation): Promise<Emulated> {
  const { url, model, name, job, run, scale, rolloutsOf, onGroups } = emulation
  const { phases, steps, prompts, responses, miniBatches } = job
  const { ahead, byMiniBatch, streamed } = traitsOf(run.strategy)
  const api = createTRPCClient<AppRouter>({ links: [httpLink({ url: `${url}/api/trpc` })] })
  // Opens the connection before the clock starts, because a real trainer opens a connection only in its first step.
  await api.session.get.query()
  const spans: PlannedSpan[] = []
  const endsMs: number[] = []
  const startedAt = performance.now()
  const now = () => (performance.now() - startedAt) * scale
  let waitMs = 0
  let groups = 0
  let samples = 0

  const gpu = async (what: PlannedSpan['what'], step: number, ms: number) => {
    const fromMs = now()
    await sleepUntil(performance.now() + ms / scale)
    spans.push({ what, step, fromMs, toMs: now() })
  }
  const open = async (step: number, all: Rollouts, isOpen: boolean) => {
    const { batchId } = await api.batches.submit.mutate({
      run: name,
      step,
      groupSize: responses,
      reward: { model },
      samples: all,
      open: isOpen,
    })
    return { batchId }
  }
  /**
   * Emulates the rollout of a step and submits its samples. The submission runs in the background, as in
   * `compute_reward_pipeline` of verl; the batch's id is awaited only when its rewards are read.
   */
  const rollOut = async (step: number): Promise<{ batchId: Promise<string> }> => {
    if (!streamed) {
      await gpu('rollout', step, phases.rolloutMs)
      return later(open(step, rolloutsOf(step), false))
    }
    const all = rolloutsOf(step)
    const fromMs = now()
    const beganAt = performance.now()
    let handedOver = open(step, [], true)
    const part = Math.ceil(all.length / STREAMED_PARTS)
    for (let at = 0; at < all.length; at += part) {
      const some = all.slice(at, at + part)
      await sleepUntil(beganAt + (phases.rolloutMs / scale) * ((at + some.length) / all.length))
      handedOver = handedOver.then(async (batch) => {
        await api.batches.append.mutate({ ...batch, startIndex: at, samples: some })
        return batch
      })
      later(handedOver)
    }
    spans.push({ what: 'rollout', step, fromMs, toMs: now() })
    return later(
      handedOver.then(async (batch) => {
        await api.batches.close.mutate(batch)
        return batch
      }),
    )
  }
  const cursors = new Map<string, string | null>()
  const take = async (
    from: { batchId: Promise<string> },
    step: number,
    wanted: number,
  ): Promise<void> => {
    const fromMs = now()
    const batchId = await from.batchId
    for (let left = wanted; left > 0; ) {
      const page = await api.batches.next.query({
        batchId,
        after: cursors.get(batchId) ?? null,
        samples: left,
        waitMs: 60_000,
      })
      cursors.set(batchId, page.cursor)
      groups += page.groups.length
      samples += page.delivered
      left -= page.delivered
      onGroups?.(step, page.groups)
      if (page.done && left > 0) throw new Error(`${batchId} ended with ${left} samples missing`)
    }
    const toMs = now()
    if (toMs - fromMs >= 1) spans.push({ what: 'wait', step, fromMs, toMs })
    waitMs += toMs - fromMs
  }

  const samplesOfStep = prompts * responses
  let next = ahead ? await rollOut(0) : null
  for (let step = 0; step < steps; step++) {
    const batch = next ?? (await rollOut(step))
    next = ahead && step + 1 < steps ? await rollOut(step + 1) : null
    if (!ahead && !byMiniBatch) await take(batch, step, samplesOfStep)
    await gpu('log_prob', step, phases.logProbMs)
    if (ahead && !byMiniBatch) await take(batch, step, samplesOfStep)
    let taken = 0
    for (let k = 1; k <= miniBatches; k++) {
      const due = Math.ceil((prompts * k) / miniBatches) * responses
      if (byMiniBatch) await take(batch, step, due - taken)
      taken = due
      await gpu('update', step, phases.updateMs / miniBatches)
    }
    endsMs.push(now())
  }
  const totalMs = now()
  const first = endsMs[0] as number
  const lastButOne = endsMs.at(-2)
  return {
    run,
    totalMs,
    stepMs: totalMs / steps,
    steadyMs:
      steps > 2 && lastButOne !== undefined ? (lastButOne - first) / (steps - 2) : totalMs / steps,
    waitMs: waitMs / steps,
    spans,
    groups,
    samples,
  }
}

/** Defers a call's rejection until its result is awaited, to avoid an unhandled rejection. */
function later(call: Promise<{ batchId: string }>): { batchId: Promise<string> } {
  const batchId = call.then((batch) => batch.batchId)
  batchId.catch(() => {})
  return { batchId }
}

/** Sleeps until a point in time instead of for a duration, so that the delays of timers do not add up. */
async function sleepUntil(atMs: number): Promise<void> {
  for (let left = atMs - performance.now(); left > 0; left = atMs - performance.now()) {
    await sleep(left)
  }
}
