import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, type Emit, runBatch, submitBody, withBench } from './harness.ts'
import { rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const SHAPE = { ...USUAL_SHAPE, samples: 32_768, promptLength: 900, responseLength: 3100 }
const READ_EVERY_MS = 100
const AFTER_MS = 30_000

/** Measures how much memory one large batch costs the server and the workers, and how long it blocks the event loop. */
export async function measureMemory(emit: Emit): Promise<void> {
  await withBench({}, async (bench) => {
    // A small batch first loads the code and allocates the memory that every service needs, so that the idle reading
    // includes them.
    await runBatch(bench, submitBody(0, makeSamples({ ...USUAL_SHAPE, samples: 512 }, 0), {}))
    await sleep(2000)
    const body = submitBody(1, makeSamples(SHAPE, 1), {})
    const { pids } = await bench.service.health()
    const idle = readings(pids)

    const watch = startWatching(bench, pids)
    const times = await runBatch(bench, body)
    await sleep(1000)
    const seen = await watch.stop()
    await sleep(AFTER_MS)
    const after = readings(pids)
    emit({
      name: 'memory',
      samples: SHAPE.samples,
      bodyMb: rounded(body.length / 1e6, 1),
      perSecond: rounded(times.perSecond),
      serverIdleMb: rounded(idle.server),
      serverPeakMb: rounded(seen.serverPeak),
      serverRiseMb: rounded(seen.serverPeak - idle.server),
      serverAfter30sMb: rounded(after.server),
      workerIdleMb: idle.workers.map((mb) => rounded(mb)),
      workerPeakMb: seen.workerPeaks.map((mb) => rounded(mb)),
      workerAfter30sMb: after.workers.map((mb) => rounded(mb)),
      eventLoopMaxMs: seen.eventLoopMaxMs === null ? null : rounded(seen.eventLoopMaxMs, 1),
      readings: seen.count,
    })
  })
}

type Pids = { server: number; workers: number[] }

function startWatching(bench: Bench, pids: Pids) {
  let stopped = false
  let count = 0
  let serverPeak = 0
  const workerPeaks = pids.workers.map(() => 0)
  let eventLoopMaxMs: number | null = null
  const askLoop = async () => {
    const { eventLoopMaxMs: ms } = await bench.service.health()
    if (ms !== undefined) eventLoopMaxMs = Math.max(eventLoopMaxMs ?? 0, ms)
  }
  const reading = (async () => {
    // Each /healthz request resets the longest event-loop block, so this request excludes the time before the batch.
    await bench.service.health()
    while (!stopped) {
      const now = readings(pids)
      count += 1
      serverPeak = Math.max(serverPeak, now.server)
      now.workers.forEach((mb, i) => {
        workerPeaks[i] = Math.max(workerPeaks[i]!, mb)
      })
      if (count % 5 === 0) await askLoop()
      await sleep(READ_EVERY_MS)
    }
    await askLoop()
  })()
  return {
    async stop() {
      stopped = true
      await reading
      return { serverPeak, workerPeaks, eventLoopMaxMs, count }
    },
  }
}

function readings(pids: Pids): { server: number; workers: number[] } {
  return { server: residentMb(pids.server), workers: pids.workers.map(residentMb) }
}

/** Returns `VmRSS` of a process in MB (10^6 bytes), or 0 if the process has ended. */
function residentMb(pid: number): number {
  try {
    const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return (Number(kib ?? 0) * 1024) / 1e6
  } catch {
    return 0
  }
}
