import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BatchTimes,
  type Bench,
  type Emit,
  runBatch,
  submitBody,
  withBench,
} from './harness.ts'
import { median, quantile, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const CLIENTS = 16
const REPETITIONS = 7

/** Measures how much scoring slows down while users load the page of a finished batch. */
export async function measurePageLoad(emit: Emit): Promise<void> {
  await withBench({}, async (bench) => {
    const samples = makeSamples(USUAL_SHAPE, 0)
    const alone: BatchTimes[] = []
    const watched: BatchTimes[] = []
    const loads: Loads = { ms: [], failed: new Map() }
    const { batchId } = await runBatch(bench, submitBody(0, samples, { model: bench.rm.model }))
    await loadCounted(bench, batchId, loads)
    // The two cases alternate, so that a slow minute of the machine affects both.
    for (let i = 1; i <= REPETITIONS; i++) {
      const body = submitBody(i, makeSamples(USUAL_SHAPE, i), { model: bench.rm.model })
      alone.push(await runBatch(bench, body))
      const watchers = startWatchers(bench, batchId, loads)
      await sleep(1000)
      watched.push(await runBatch(bench, body))
      await watchers.stop()
    }
    const aloneRate = median(alone.map((r) => r.perSecond))
    const watchedRate = median(watched.map((r) => r.perSecond))
    emit({
      name: 'page_load',
      clients: CLIENTS,
      everyMs: 1000,
      alonePerSecond: rounded(aloneRate),
      watchedPerSecond: rounded(watchedRate),
      fallPercent: rounded((1 - watchedRate / aloneRate) * 100, 1),
      pageLoads: loads.ms.length,
      failedLoads: Object.fromEntries(loads.failed),
      pageP50Ms: rounded(quantile(loads.ms, 0.5), 1),
      pageP99Ms: rounded(quantile(loads.ms, 0.99), 1),
      aloneRuns: alone.map((r) => rounded(r.perSecond)),
      watchedRuns: watched.map((r) => rounded(r.perSecond)),
    })
  })
}

async function loadOnce(bench: Bench, batchId: string): Promise<void> {
  await bench.page(`/batches/${batchId}`)
  await Promise.all([
    bench.api.batches.view.query({ batchId }),
    bench.api.batches.groups.query({ batchId }),
    bench.api.batches.timeline.query({ batchId }),
  ])
}

interface Loads {
  ms: number[]
  failed: Map<string, number>
}

async function loadCounted(bench: Bench, batchId: string, loads: Loads): Promise<void> {
  const t0 = performance.now()
  try {
    await loadOnce(bench, batchId)
    loads.ms.push(performance.now() - t0)
  } catch (error) {
    const { message } = error as Error
    loads.failed.set(message, (loads.failed.get(message) ?? 0) + 1)
  }
}

/** Starts clients that each load the page once per second, evenly spread. A client that is late skips a second. */
function startWatchers(bench: Bench, batchId: string, loads: Loads) {
  const stopping = new AbortController()
  const { signal } = stopping
  const startedAt = performance.now()
  const clients = Array.from({ length: CLIENTS }, async (_, i) => {
    const phaseMs = (1000 / CLIENTS) * i
    for (;;) {
      const elapsedMs = performance.now() - startedAt - phaseMs
      const dueMs = Math.max(0, Math.ceil(elapsedMs / 1000)) * 1000 - elapsedMs
      await sleep(dueMs, null, { signal }).catch(() => null)
      if (signal.aborted) return
      await loadCounted(bench, batchId, loads)
    }
  })
  return {
    async stop() {
      stopping.abort()
      await Promise.all(clients)
    },
  }
}
