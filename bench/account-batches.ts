import { rm as removeFolder } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readPostmaster } from '../server/store/postgres/cluster.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { applicationNames, type CpuTimes, CpuWatch, type ServicePids } from './account-cpu.ts'
import {
  benchFolder,
  followGroups,
  type OpenService,
  openService,
  registerRm,
  submitBody,
} from './harness.ts'
import { TEXTS_VERSION } from './rate.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

/** Scorers to measure: the rule `gsm8k`, or a vLLM server that receives texts or conversations. */
export const WORKLOADS = ['rule', 'texts', 'chat'] as const
export type Workload = (typeof WORKLOADS)[number]

export interface AccountOptions {
  workloads: readonly Workload[]
  /** Samples per batch. */
  samples: number
  /** Measured batches per workload and service start. */
  batches: number
  /** Warm-up batches per workload, which compile code and open connections before the measured batches. */
  warmUpBatches: number
  /** The folder of another checkout to compare with, or undefined for no comparison. */
  against: string | undefined
  /** Environment variables that only this checkout's services get, to compare settings. */
  env: Record<string, string>
  /** Number of service starts. With `against`, each start runs the services of both checkouts, which form one pair. */
  pairs: number
  /** Largest acceptable slowdown, percent. The upper end of the difference's 95 % confidence interval must be below it. */
  boundPercent: number
}

/** Samples per mini-batch. The trainer waits for this many before it reads completed groups. */
const SAMPLES_A_DELIVERY = 1_024
/** CPU time after a batch's last delivery is measured for this long. */
const AFTER_MS = 500

export interface BatchCpu {
  workload: Workload
  wallMs: number
  times: CpuTimes
  /** CPU time within `AFTER_MS` after the last delivery; not part of `times`. */
  after: CpuTimes
}

export type Rms = Record<'texts' | 'chat', SimulatedServers>

export async function startRms(): Promise<Rms> {
  return {
    texts: await startSimulatedServers(['--model', 'texts', '--version', TEXTS_VERSION]),
    chat: await startSimulatedServers(['--model', 'chat']),
  }
}

export interface Side {
  opened: OpenService
  dataDir: string
}

export async function withSides(
  checkouts: readonly { root: string; env: Record<string, string> }[],
  rms: Rms,
  measure: (sides: Side[]) => Promise<void>,
): Promise<void> {
  const folder = await benchFolder()
  const sides: Side[] = []
  try {
    const started = await Promise.allSettled(
      checkouts.map(async ({ root, env }, at) => {
        const dataDir = join(folder, `data-${at}`)
        const opened = await openService({ dataDir, root, env: { REWARDOPS_PAGES: '0', ...env } })
        sides[at] = { opened, dataDir }
        await registerRms(opened, rms)
      }),
    )
    const failed = started.find((s) => s.status === 'rejected')
    if (failed) throw failed.reason
    await measure(sides)
  } finally {
    await Promise.all(sides.map((side) => side?.opened.close()))
    await removeFolder(folder, { recursive: true, force: true })
  }
}

export async function registerRms(opened: OpenService, rms: Rms): Promise<void> {
  for (const [name, rm] of Object.entries(rms)) await registerRm(opened.api, name, rm)
}

/** Runs each batch on both sides. The order of the sides swaps with every batch: ours, theirs, theirs, ours, … */
export async function inTurn(
  sides: readonly Side[],
  workload: Workload,
  options: AccountOptions,
  pair: number,
  measured: (side: number, batch: BatchCpu) => void,
): Promise<void> {
  for (let i = 0; i < options.warmUpBatches + options.batches; i++) {
    const body = bodyOf(workload, options, i)
    const order = [...sides.keys()]
    if ((pair + i) % 2 === 1) order.reverse()
    for (const at of order) {
      const side = sides[at] as Side
      if (i < options.warmUpBatches) await scoreBatch(side.opened, body)
      else measured(at, await measureBatch(side, workload, body))
    }
  }
}

/** Returns the body of a step's batch. The texts are different in every step and the same for both sides. */
export function bodyOf(workload: Workload, options: AccountOptions, step: number): Buffer {
  const shape = { ...USUAL_SHAPE, samples: options.samples }
  const reward = workload === 'rule' ? {} : { model: workload }
  return submitBody(step, makeSamples(shape, step), reward, shape.groupSize)
}

async function measureBatch(side: Side, workload: Workload, body: Buffer): Promise<BatchCpu> {
  const { pids, watch, wallMs } = await watchBatch(side, body)
  const watchAfter = new CpuWatch(pids)
  await sleep(AFTER_MS)
  watchAfter.stop()
  const names = await applicationNames(urlOf(side))
  return { workload, wallMs, times: watch.times(names), after: watchAfter.times(names) }
}

export async function watchBatch(side: Side, body: Buffer) {
  const { pids } = await side.opened.service.health()
  if (pids.postgres === null) throw new Error('the service reports no Postgres process')
  const own: ServicePids = { ...pids, postgres: pids.postgres }
  const watch = new CpuWatch(own)
  const startedAt = performance.now()
  try {
    await scoreBatch(side.opened, body)
  } finally {
    watch.stop()
  }
  return { pids: own, watch, wallMs: performance.now() - startedAt }
}

/** Submits a batch and waits until its last group is delivered. @throws when a sample was not scored */
export async function scoreBatch(opened: OpenService, body: Buffer): Promise<void> {
  const { batchId, accepted } = await opened.submit(body)
  let delivered = 0
  await followGroups(
    opened,
    batchId,
    (page) => {
      for (const group of page.groups) {
        const failed = group.samples.find((sample) => sample.status !== 'scored')
        if (failed) throw new Error(`${batchId}: a sample was not scored (${failed.reason})`)
        delivered += group.samples.length
      }
    },
    SAMPLES_A_DELIVERY,
  )
  if (delivered !== accepted) {
    throw new Error(`${batchId}: ${delivered} of ${accepted} samples were delivered`)
  }
}

/**
 * Returns the URL of the embedded Postgres of an old checkout, which sets no password; null if Postgres is not running.
 */
function urlWithoutPassword(dataDir: string): string | null {
  const socketDir = readPostmaster(join(dataDir, 'postgres'))?.socketDir
  if (!socketDir) return null
  return `postgresql://rewardops@localhost:5432/rewardops?host=${encodeURIComponent(socketDir)}&sslmode=disable`
}

/** The URL of a service's embedded Postgres. @throws when it is not running */
export function urlOf(side: Side): string {
  const url = runningEmbeddedUrl(side.dataDir, 'superuser') ?? urlWithoutPassword(side.dataDir)
  if (url === null) throw new Error('the embedded Postgres of the service is not running')
  return url
}
