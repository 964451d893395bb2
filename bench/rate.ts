import type { SampleInput } from '../server/contract/trainer.ts'
import { vllm } from '../server/engines/vllm.ts'
import { type BareLoopResult, bareLoop } from './bare-loop.ts'
import {
  type BatchTimes,
  type Bench,
  type Emit,
  runBatch,
  submitBody,
  withBench,
} from './harness.ts'
import { median, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const REPETITIONS = 5

/** A vLLM version that accepts conversations on /classify. */
const CHAT_VERSION = '0.29.0'
/** A vLLM version that does not accept conversations on /classify, so the service sends it texts, several per call. */
export const TEXTS_VERSION = '0.11.2'

/** Measures the rate of batches scored by a reward model and by a rule, against bare requests to the same server. */
export async function measureRate(emit: Emit): Promise<void> {
  await withBench({ rmArgs: ['--version', CHAT_VERSION] }, async (bench) => {
    const { bare, byModel, byRule } = await inTurn(bench, CHAT_VERSION)
    const limit = median(bare.map((b) => b.perSecond))
    emit({ name: 'rate.bare_loop', ...bareSummary(bare) })
    emit({ name: 'rate.by_model', ...summary(byModel, limit) })
    emit({ name: 'rate.by_rule', ...summary(byRule, limit) })
  })
  await withBench({ rmArgs: ['--version', TEXTS_VERSION] }, async (bench) => {
    const { bare, byModel, calls } = await inTurn(bench, TEXTS_VERSION)
    const limit = median(bare.map((b) => b.perSecond))
    emit({
      name: 'rate.by_model_texts',
      ...summary(byModel, limit),
      samplesPerCall: rounded(median(calls.map((n) => USUAL_SHAPE.samples / n)), 2),
      bare: bareSummary(bare),
    })
  })
}

/**
 * After one warm-up, alternates between the bare loop, the model and the rule, so that a slow minute affects all three.
 */
async function inTurn(bench: Bench, version: string) {
  const bare: BareLoopResult[] = []
  const byModel: BatchTimes[] = []
  const byRule: BatchTimes[] = []
  const calls: number[] = []
  for (let i = 0; i <= REPETITIONS; i++) {
    const samples = makeSamples(USUAL_SHAPE, i)
    const modelBody = submitBody(i, samples, { model: bench.rm.model })
    const ruleBody = submitBody(i, samples, {})
    const requests = classifyBodies(bench, samples, version)
    const bareTimes = await bareLoop(bench.rm.url, '/classify', requests)
    const before = await bench.rm.counters()
    const modelTimes = await runBatch(bench, modelBody)
    const after = await bench.rm.counters()
    const ruleTimes = await runBatch(bench, ruleBody)
    if (i === 0) continue
    bare.push(bareTimes)
    byModel.push(modelTimes)
    byRule.push(ruleTimes)
    calls.push(after.requests - before.requests)
  }
  return { bare, byModel, byRule, calls }
}

/** Request bodies as the service sends them to a reward-model server, one per sample. */
export function classifyBodies(
  bench: Bench,
  samples: readonly (SampleInput & { response: string })[],
  version = CHAT_VERSION,
): string[] {
  const target = { model: bench.rm.model, version }
  return samples.map((sample) => {
    const input = { prompt: sample.prompt as string, response: sample.response }
    return vllm.buildScoreRequest(input, target).body as string
  })
}

function bareSummary(bare: readonly BareLoopResult[]): Record<string, unknown> {
  return {
    requests: USUAL_SHAPE.samples,
    connections: 64,
    perSecond: rounded(median(bare.map((b) => b.perSecond))),
    runs: bare.map((b) => rounded(b.perSecond)),
  }
}

function summary(runs: readonly BatchTimes[], limit: number): Record<string, unknown> {
  const total = median(runs.map((r) => r.totalMs))
  const share = (of: (run: BatchTimes) => number) =>
    rounded(median(runs.map((r) => of(r) / r.totalMs)), 3)
  return {
    samples: USUAL_SHAPE.samples,
    perSecond: rounded(median(runs.map((r) => r.perSecond))),
    ratioToBare: rounded(median(runs.map((r) => r.perSecond)) / limit, 3),
    totalMs: rounded(total),
    share: {
      submit: share((r) => r.submitMs),
      score: share((r) => r.scoreMs),
      results: share((r) => r.resultsMs),
    },
    runs: runs.map((r) => rounded(r.perSecond)),
  }
}
