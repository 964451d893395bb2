import { setTimeout as sleep } from 'node:timers/promises'
import { checkHistory } from './checker.ts'
import { strike } from './faults.ts'
import { type History, loadHistory } from './history.ts'
import type { Violation } from './laws/law.ts'
import { askAt } from './postgres-cluster.ts'
import { poll } from './processes.ts'
import type { Schedule } from './schedule.ts'
import type { SourceTree } from './source-tree.ts'
import { Stack } from './stack.ts'
import { workloadOf } from './workload.ts'

/**
 * Once all faults are healed, an episode counts as stuck if no sample ends for this long, in ms. The time grows with
 * the slowness of the machine.
 */
const STANDSTILL_MS = 25_000
/** Time limit for all work after the last fault is healed, ms. It is longer on a slow machine. */
const BOUND_MS = 150_000
/**
 * Time limit until the service is idle. A crash of Postgres may lose the completion of a job. The job is then requeued
 * 15 s after the database or a server is back, so that workers can first write the results that they kept. Leases last
 * 2 s, and reports arrive once a second.
 */
const IDLE_MS = 20_000
/** Time that a server with its workers takes to start on an otherwise idle machine. */
const USUAL_START_MS = 4_000
const DELAY_CHECK_MS = 20
const DELAY_MS = 30
const MAX_SLOWNESS = 6

/**
 * Statement that writes a row too large for existing pages, because on a full disk a small row may still fit in one.
 * The commit does not wait for the disk, because a synchronous commit would also store every earlier commit and hide
 * one that was acknowledged too early.
 */
const PROBE = `set synchronous_commit = off; insert into chaos_probe select string_agg(md5(random()::text), '') from generate_series(1, 500)`

export interface EpisodeResult {
  schedule: Schedule
  violations: Violation[]
  /** Laws that cannot be checked on this version of the product. */
  notChecked: string[]
  samples: number
  tookMs: number
  history: History
  folder: string
  remove(): void
}

export async function runEpisode(schedule: Schedule, tree: SourceTree): Promise<EpisodeResult> {
  const beganAt = performance.now()
  const { seed, setup } = schedule
  const workload = workloadOf(seed)
  const stack = new Stack({ setup, tree, workload, seed })
  try {
    await run(stack, schedule).catch((error: Error) => {
      stack.history.add({ e: 'broken', at: Date.now(), law: 'start', message: error.message })
    })
  } finally {
    await stack.destroy()
  }
  const history = loadHistory(stack.folder, seed)
  const { violations, notChecked } = checkHistory(history, schedule, workload)
  return {
    schedule,
    violations,
    notChecked,
    samples: workload.jobs.reduce((sum, job) => sum + job.samples, 0),
    tookMs: performance.now() - beganAt,
    history,
    folder: stack.folder,
    remove: () => stack.remove(),
  }
}

async function run(stack: Stack, schedule: Schedule): Promise<void> {
  const phase = (name: string) => stack.history.add({ e: 'phase', at: Date.now(), name })
  phase('start')
  const startMs = await stack.start()
  stack.slowness = Math.min(MAX_SLOWNESS, Math.max(1, startMs / USUAL_START_MS))
  stack.history.add({ e: 'slowness', at: Date.now(), factor: stack.slowness })
  phase('work')
  const stopProbes = startProbes(stack)
  const delays = watchDelays(stack)
  stack.startTrainer()
  // Faults begin after the first acknowledgement, because before it there is nothing to lose.
  await poll(() => stack.hasAccepted(), 60_000)
  await Promise.all(
    schedule.faults.map(async (fault) => {
      await sleep(fault.atMs)
      await strike(stack, fault)
    }),
  )
  phase('healed')
  await untilDone(stack)
  phase('idle')
  await noteDatabase(stack)
  await stopProbes()
  await Promise.all(stack.watches)
  clearInterval(delays)
  phase('stop')
  await stack.stop()
  phase('end')
}

/** Records when this process was blocked, because it then forwards answers late. */
function watchDelays(stack: Stack): NodeJS.Timeout {
  let lastMs = performance.now()
  return setInterval(() => {
    const nowMs = performance.now()
    const forMs = Math.round(nowMs - lastMs - DELAY_CHECK_MS)
    lastMs = nowMs
    if (forMs > DELAY_MS) stack.history.add({ e: 'delayed', at: Date.now(), forMs })
  }, DELAY_CHECK_MS)
}

async function untilDone(stack: Stack): Promise<void> {
  const until = performance.now() + BOUND_MS * Math.sqrt(stack.slowness)
  let last = -1
  let movedAt = performance.now()
  while (stack.trainer?.running) {
    const samples = await stack.endedSamples()
    if (samples !== null && samples.ended !== last) {
      last = samples.ended
      movedAt = performance.now()
    }
    const now = performance.now()
    if (now - movedAt > STANDSTILL_MS * Math.sqrt(stack.slowness) || now > until) {
      const open =
        samples === null ? 'the database does not answer' : `${samples.open} samples open`
      const message = `the trainer is not done, ${open}, and no sample ended for ${Math.round((now - movedAt) / 1_000)} s`
      stack.history.add({ e: 'broken', at: Date.now(), law: 'ended', message })
      return
    }
    await sleep(500)
  }
}

async function noteDatabase(stack: Stack): Promise<void> {
  const isIdle = async () => {
    const state = await stack.databaseState()
    if (state === null) return null
    const { leases, claims, activeJobs, waitingJobs, inFlight } = state
    return leases + claims + activeJobs + waitingJobs + inFlight === 0 ? state : null
  }
  const state =
    (await poll(isIdle, IDLE_MS * stack.slowness, 400)) ??
    (await stack.databaseState().catch(() => null))
  if (state !== null) stack.history.add({ e: 'database', at: Date.now(), state })
}

/**
 * Probes `/readyz` and writes a row through the first server's link to the database, each four times a second. Does
 * nothing if the service has no `/readyz`.
 */
function startProbes(stack: Stack): () => Promise<void> {
  const [server] = stack.servers
  let isOver = false
  const every = async (work: () => Promise<void>) => {
    while (!isOver) {
      await work().catch(() => {})
      await sleep(250)
    }
  }
  const work = async () => {
    // Before the first fault, a service with `/readyz` is ready.
    if (server === undefined || (await stack.get(server, '/readyz')) !== 200) return
    await poll(() => write(stack, 'create table if not exists chaos_probe (text text)'), 3_000)
    await Promise.all([
      every(async () => {
        const status = await stack.get(server, '/readyz')
        stack.history.add({ e: 'ready', at: Date.now(), server: 0, status })
      }),
      every(async () => {
        const ok = await write(stack, PROBE).catch(() => false)
        stack.history.add({ e: 'write', at: Date.now(), ok })
      }),
    ])
  }
  const done = work().catch(() => {})
  return async () => {
    isOver = true
    await done
  }
}

async function write(stack: Stack, text: string): Promise<boolean> {
  const link = stack.servers[0]?.databaseLink
  const url = link ? stack.cluster?.url(link.port) : stack.databaseUrl()
  if (url == null) return false
  await askAt(url, text)
  return true
}
