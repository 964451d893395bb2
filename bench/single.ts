import { Pool } from 'undici'
import type { SampleInput } from '../server/contract/trainer.ts'
import { type Bench, type Emit, submitBody, waitForEnd, withBench } from './harness.ts'
import { classifyBodies } from './rate.ts'
import { quantile, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const CALLS = 1_000
/**
 * Number of warm-up calls, which are not measured. A call takes 7 ms at first. After about a thousand calls the code is
 * compiled, and a call takes 4.6 ms, as in a service that has run for days.
 */
const WARM_UP = 1_000
const BUSY_BATCHES = 3

/**
 * Measures how much time `samples.score` adds to a direct request on an idle service, and how long `samples.score`
 * takes on a busy service.
 */
export async function measureSingle(emit: Emit): Promise<void> {
  await withBench({}, async (bench) => {
    const samples = makeSamples({ ...USUAL_SHAPE, samples: CALLS + WARM_UP }, 1)
    const bodies = classifyBodies(bench, samples)
    const rm = new Pool(bench.rm.url, { connections: 1 })
    const bare: number[] = []
    const ours: number[] = []
    try {
      // All direct requests run before the first `samples.score`, because alternating calls would evict each other's
      // code from the caches.
      for (let i = 0; i < samples.length; i++) {
        const ms = await timed(async () => {
          const path = '/classify'
          const headers = { 'content-type': 'application/json' }
          const answer = await rm.request({ path, method: 'POST', headers, body: bodies[i]! })
          await answer.body.json()
        })
        if (i >= WARM_UP) bare.push(ms)
      }
      for (let i = 0; i < samples.length; i++) {
        const input = scoreBody(bench, samples[i]!)
        const ms = await timed(() => scoreOne(bench, input))
        if (i >= WARM_UP) ours.push(ms)
      }
    } finally {
      await rm.close()
    }
    emit({
      name: 'single.idle',
      calls: CALLS,
      bareP50Ms: rounded(quantile(bare, 0.5), 2),
      bareP99Ms: rounded(quantile(bare, 0.99), 2),
      p50Ms: rounded(quantile(ours, 0.5), 2),
      p99Ms: rounded(quantile(ours, 0.99), 2),
      p50OverBareMs: rounded(quantile(ours, 0.5) - quantile(bare, 0.5), 2),
      p99OverBareMs: rounded(quantile(ours, 0.99) - quantile(bare, 0.99), 2),
    })

    const busy: number[] = []
    for (let i = 0; i < BUSY_BATCHES; i++) {
      const body = submitBody(100 + i, makeSamples(USUAL_SHAPE, 100 + i), { model: bench.rm.model })
      const { batchId } = await bench.submit(body)
      let ended = false
      const end = waitForEnd(bench, batchId).then(() => {
        ended = true
      })
      for (let n = 0; !ended; n++) {
        const input = scoreBody(bench, samples[n % samples.length]!)
        busy.push(await timed(() => scoreOne(bench, input)))
      }
      await end
    }
    emit({
      name: 'single.busy',
      calls: busy.length,
      batchSamples: USUAL_SHAPE.samples,
      batches: BUSY_BATCHES,
      p50Ms: rounded(quantile(busy, 0.5), 2),
      p99Ms: rounded(quantile(busy, 0.99), 2),
      maxMs: rounded(Math.max(...busy), 2),
    })
  })
}

function scoreBody(bench: Bench, sample: SampleInput): string {
  const reward = { model: bench.rm.model }
  return JSON.stringify({ run: 'bench-single', step: 0, reward, sample })
}

async function scoreOne(bench: Bench, body: string): Promise<void> {
  const result = await bench.score(body)
  if (result.status !== 'scored')
    throw new Error(`samples.score: ${result.status} (${result.reason})`)
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const t0 = performance.now()
  await work()
  return performance.now() - t0
}
