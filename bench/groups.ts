import { latencyOfText } from '../testkit/simulated-rm/latency.ts'
import { textId } from '../testkit/simulated-rm/text.ts'
import {
  type Bench,
  type Emit,
  followGroups,
  submitBody,
  waitForEnd,
  withBench,
} from './harness.ts'
import { median, quantile, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const SEED = 7
const STRAGGLING = {
  latency: { kind: 'uniform', fromMs: 100, toMs: 4000 },
  slowShare: 0.005,
  slowMs: 30_000,
  seed: SEED,
} as const

/**
 * Measures whether groups are delivered as soon as their own rewards allow, and whether thousands of slow requests run
 * concurrently.
 */
export async function measureGroups(emit: Emit): Promise<void> {
  const rmArgs = ['--seed', String(SEED), '--draw-by', 'text']
  await withBench({ rmArgs, maxInFlight: 8192 }, async (bench) => {
    await warmUp(bench)
    await measureCompletion(bench, emit)
    await measureSideBySide(bench, emit)
  })
}

async function warmUp(bench: Bench): Promise<void> {
  const samples = makeSamples({ ...USUAL_SHAPE, samples: 512 }, 0)
  const body = submitBody(0, samples, { model: bench.rm.model })
  const { batchId } = await bench.submit(body)
  await waitForEnd(bench, batchId)
}

/**
 * Compares the completion times of groups with the best possible times, which are known exactly, because the texts
 * determine the delays.
 */
async function measureCompletion(bench: Bench, emit: Emit): Promise<void> {
  const { latency, slowShare, slowMs } = STRAGGLING
  const range = `uniform:${latency.fromMs},${latency.toMs}`
  await bench.rm.control({ latency: range, slowShare, slowMs, resetStats: true })
  const samples = makeSamples({ ...USUAL_SHAPE, samples: 1024 }, 1)
  const idealMs = new Map<string, number>()
  let slowTexts = 0
  for (const { uid, prompt, response } of samples) {
    const ms = latencyOfText(STRAGGLING, textId(prompt as string, response))
    if (ms === slowMs) slowTexts += 1
    idealMs.set(uid, Math.max(idealMs.get(uid) ?? 0, ms))
  }
  const body = submitBody(1, samples, { model: bench.rm.model })
  const t0 = performance.now()
  const { batchId } = await bench.submit(body)
  const submitMs = performance.now() - t0
  const arrived = new Map<string, number>()
  await followGroups(bench, batchId, (page) => {
    const ms = performance.now() - t0
    for (const group of page.groups) {
      if (arrived.has(group.uid)) throw new Error(`group ${group.uid} was delivered twice`)
      arrived.set(group.uid, ms)
    }
  })
  if (arrived.size !== idealMs.size)
    throw new Error(`${arrived.size} of ${idealMs.size} groups were delivered`)
  const ideal = [...idealMs.values()]
  const late = [...arrived].map(([uid, ms]) => ms - idealMs.get(uid)!)
  emit({
    name: 'groups.completion',
    groups: ideal.length,
    slowTexts,
    submitMs: rounded(submitMs),
    idealMedianMs: rounded(median(ideal)),
    medianMs: rounded(median([...arrived.values()])),
    ratioToIdeal: rounded(median([...arrived.values()]) / median(ideal), 3),
    lateP50Ms: rounded(quantile(late, 0.5)),
    lateP99Ms: rounded(quantile(late, 0.99)),
    idealLastMs: rounded(Math.max(...ideal)),
    lastMs: rounded(Math.max(...arrived.values())),
  })
}

async function measureSideBySide(bench: Bench, emit: Emit): Promise<void> {
  const rewards = 5000
  await bench.rm.control({ latency: 4000, slowShare: 0, resetStats: true })
  const samples = makeSamples({ ...USUAL_SHAPE, samples: rewards }, 2)
  const body = submitBody(2, samples, { model: bench.rm.model })
  const t0 = performance.now()
  const { batchId } = await bench.submit(body)
  const submitMs = performance.now() - t0
  await waitForEnd(bench, batchId)
  const totalMs = performance.now() - t0
  const { maxInFlight, requests } = await bench.rm.counters()
  emit({
    name: 'groups.side_by_side',
    rewards,
    rewardMs: 4000,
    submitMs: rounded(submitMs),
    totalMs: rounded(totalMs),
    mostAtOnce: maxInFlight,
    requests,
  })
}
