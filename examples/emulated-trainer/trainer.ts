import { setTimeout as sleep } from 'node:timers/promises'
import { createTRPCClient, httpLink } from '@trpc/client'
import type { AppRouter } from '../../server/api/root.ts'
import type { Span } from '../../server/planner/overlap.ts'
import type { EmulationOptions, Run } from './options.ts'

/** What a run took, in emulated ms: as if nothing had been scaled. */
export interface Emulated {
  run: Run
  totalMs: number
  stepMs: number
  steadyMs: number
  /** Of a step, that the trainer did nothing but wait for rewards. */
  waitMs: number
  /** Handing a step's rollouts over, a step: part of the trainer's time too. */
  submitMs: number
  spans: Span[]
  /** Groups delivered, all steps together; each of them once. */
  groups: number
}

/** A step's rollouts as they are handed over. */
export type Rollouts = { uid: string; dataSource: string; prompt: string; response: string }[]

/**
 * A trainer without a GPU: what a GPU would do is waited for, what rewards do is done. All that it knows of the service are
 * `batches.submit`, `append`, `close` and `next`.
 */
export async function emulate(
  url: string,
  model: string,
  runName: string,
  run: Run,
  options: EmulationOptions,
  rolloutsOf: (step: number) => Rollouts,
): Promise<Emulated> {
  const { phases, scale, steps, prompts, responses, miniBatches } = options
  const api = createTRPCClient<AppRouter>({ links: [httpLink({ url: `${url}/api/trpc` })] })
  const spans: Span[] = []
  const startedAt = performance.now()
  const now = () => (performance.now() - startedAt) * scale
  let waitMs = 0
  let submitMs = 0
  let groups = 0
  let firstEndMs = 0

  const gpu = async (what: Span['what'], step: number, ms: number) => {
    const fromMs = now()
    // Timers are late by a ms or two: slept to the end of the phase, not for its length, errors do not add up.
    await sleepUntil(performance.now() + ms / scale)
    spans.push({ what, step, fromMs, toMs: now() })
  }
  const submit = async (step: number): Promise<string> => {
    const fromMs = now()
    const { batchId } = await api.batches.submit.mutate({
      run: runName,
      step,
      groupSize: responses,
      reward: { model },
      samples: rolloutsOf(step),
    })
    submitMs += now() - fromMs
    return batchId
  }
  /** The rollout of a step, asked for the rewards of; streamed, its samples go as they end, in eight parts. */
  const rollOut = async (step: number): Promise<string> => {
    if (run.strategy !== 'streaming') {
      await gpu('rollout', step, phases.rolloutMs)
      return submit(step)
    }
    const { batchId } = await api.batches.submit.mutate({
      run: runName,
      step,
      groupSize: responses,
      reward: { model },
      samples: [],
      open: true,
    })
    const samples = rolloutsOf(step)
    const part = Math.ceil(samples.length / PARTS)
    for (let at = 0; at < samples.length; at += part) {
      const some = samples.slice(at, at + part)
      await gpu('rollout', step, (phases.rolloutMs * some.length) / samples.length)
      await api.batches.append.mutate({ batchId, startIndex: at, samples: some })
    }
    await api.batches.close.mutate({ batchId })
    return batchId
  }
  const cursors = new Map<string, string | null>()
  /** Waits for so many samples more of a batch, whole groups. */
  const take = async (batchId: string, step: number, samples: number): Promise<void> => {
    const fromMs = now()
    for (let left = samples; left > 0; ) {
      const page: Awaited<ReturnType<typeof api.batches.next.query>> = await api.batches.next.query(
        {
          batchId,
          after: cursors.get(batchId) ?? null,
          samples: left,
          waitMs: 60_000,
        },
      )
      cursors.set(batchId, page.cursor)
      groups += page.groups.length
      left -= page.delivered
      if (page.done && left > 0) throw new Error(`${batchId} ended ${left} samples too early`)
    }
    const toMs = now()
    if (toMs - fromMs >= 1) spans.push({ what: 'wait', step, fromMs, toMs })
    waitMs += toMs - fromMs
  }

  const samplesOfStep = prompts * responses
  const ahead = run.strategy === 'off_policy' || run.strategy === 'both'
  const byMiniBatch = run.strategy === 'pipeline' || run.strategy === 'both'
  let coming = ahead ? await rollOut(0) : null
  for (let step = 0; step < steps; step++) {
    const batchId: string = coming ?? (await rollOut(step))
    coming = ahead && step + 1 < steps ? await rollOut(step + 1) : null
    if (!ahead && !byMiniBatch) await take(batchId, step, samplesOfStep)
    await gpu('log_prob', step, phases.logProbMs)
    if (ahead && !byMiniBatch) await take(batchId, step, samplesOfStep)
    let taken = 0
    for (let k = 1; k <= miniBatches; k++) {
      const due = Math.ceil((prompts * k) / miniBatches) * responses
      if (byMiniBatch) await take(batchId, step, due - taken)
      taken = due
      await gpu('update', step, phases.updateMs / miniBatches)
    }
    if (step === 0) firstEndMs = now()
  }
  const totalMs = now()
  return {
    run,
    totalMs,
    stepMs: totalMs / steps,
    steadyMs: steps > 1 ? (totalMs - firstEndMs) / (steps - 1) : totalMs,
    waitMs: waitMs / steps,
    submitMs: submitMs / steps,
    spans,
    groups,
  }
}

/** Appends of a streamed step. */
const PARTS = 8

async function sleepUntil(atMs: number): Promise<void> {
  for (let left = atMs - performance.now(); left > 0; left = atMs - performance.now()) {
    await sleep(left)
  }
}
