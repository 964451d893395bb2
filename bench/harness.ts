import { chmod, mkdtemp, rm as removeFolder } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import type {
  BatchSummary,
  NextResult,
  RewardSpec,
  SampleInput,
  ScoreResult,
  SubmitResult,
} from '../server/contract/trainer.ts'
import { freePort } from '../testkit/processes/port.ts'
import { type ServiceProcess, startService } from '../testkit/processes/service.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { type Api, createApi } from '../testkit/processes/trpc-call.ts'

/** Prints one line: the measurement's name and its values, whose names include the unit. */
export type Emit = (measurement: { name: string } & Record<string, unknown>) => void

export interface Bench {
  service: ServiceProcess
  rm: SimulatedServers
  api: Api
  /** Calls `batches.submit` with an encoded body. @throws with the service's message */
  submit(body: Buffer): Promise<SubmitResult>
  /** Calls `samples.score` with an encoded body. @throws with the service's message */
  score(body: string): Promise<ScoreResult>
  /** Loads a page's HTML. @throws when the status is not 200 */
  page(path: string): Promise<void>
}

export async function withBench(
  options: { rmArgs?: string[]; maxInFlight?: number },
  measure: (bench: Bench) => Promise<void>,
): Promise<void> {
  const folder = await benchFolder()
  let rm: SimulatedServers | undefined
  let opened: OpenService | undefined
  try {
    rm = await startSimulatedServers(['--running', '100000', ...(options.rmArgs ?? [])])
    opened = await openService({ dataDir: join(folder, 'data') })
    await registerRm(opened.api, 'bench', rm, options.maxInFlight)
    await measure({ ...opened, rm })
  } finally {
    await opened?.close()
    await rm?.stop()
    await removeFolder(folder, { recursive: true, force: true })
  }
}

export async function benchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rewardops-bench-'))
  // If the process is root, Postgres runs as another user, which must be able to enter the folder.
  await chmod(folder, 0o711)
  return folder
}

export interface OpenService extends Omit<Bench, 'rm'> {
  close(): Promise<void>
}

/** Starts the service and returns clients for it. `root` is the checkout to start, by default this one. */
export async function openService(options: {
  dataDir: string
  root?: string
  env?: Record<string, string | undefined>
}): Promise<OpenService> {
  const service = await startService({
    port: await freePort(),
    dataDir: options.dataDir,
    ...(options.root === undefined ? {} : { root: options.root }),
    env: {
      DATABASE_URL: undefined,
      REWARDOPS_API_KEYS: undefined,
      HOST: undefined,
      ...options.env,
    },
  })
  const pool = new Pool(service.url, { connections: 32, headersTimeout: 0, bodyTimeout: 0 })
  return {
    service,
    ...clientOf(service.url, pool),
    async close() {
      await pool.destroy()
      await service.stop()
    },
  }
}

export async function registerRm(
  api: Api,
  name: string,
  rm: SimulatedServers,
  maxInFlight = 128,
): Promise<void> {
  await api.servers.register.mutate({
    name,
    url: rm.url,
    engine: 'vllm',
    model: rm.model,
    maxInFlight,
  })
}

function clientOf(url: string, pool: Pool): Omit<Bench, 'service' | 'rm'> {
  const headers = { 'content-type': 'application/json' }
  const post = async <T>(procedure: string, body: string | Buffer): Promise<T> => {
    const path = `/api/trpc/${procedure}`
    const response = await pool.request({ path, method: 'POST', headers, body })
    const answer = (await response.body.json()) as {
      result?: { data: T }
      error?: { message: string }
    }
    if (answer.result) return answer.result.data
    throw new Error(`${procedure}: ${response.statusCode} ${answer.error?.message}`)
  }
  return {
    api: createApi(() => url, {}, pool),
    submit: (body) => post('batches.submit', body),
    score: (body) => post('samples.score', body),
    async page(path) {
      const response = await pool.request({ path, method: 'GET' })
      await response.body.dump({ limit: 16 * 1024 * 1024 })
      if (response.statusCode !== 200)
        throw new Error(`GET ${path} answered ${response.statusCode}`)
    },
  }
}

export function submitBody(
  step: number,
  samples: readonly SampleInput[],
  reward: Partial<RewardSpec>,
  groupSize = 8,
): Buffer {
  return Buffer.from(JSON.stringify({ run: 'bench', step, groupSize, reward, samples }))
}

/** Duration of each stage of a batch, as its trainer sees it. */
export interface BatchTimes {
  batchId: string
  samples: number
  /** From the first byte sent to the acknowledgement; includes parsing, checks and storage. */
  submitMs: number
  /** From the acknowledgement to the batch's end. */
  scoreMs: number
  /** Time of all `batches.results` calls, including parsing. */
  resultsMs: number
  totalMs: number
  perSecond: number
}

/** Runs a batch from submit to results. @throws when a sample was not scored */
export async function runBatch(bench: Bench, body: Buffer): Promise<BatchTimes> {
  const t0 = performance.now()
  const { batchId, accepted } = await bench.submit(body)
  const t1 = performance.now()
  await waitForEnd(bench, batchId)
  const t2 = performance.now()
  let samples = 0
  while (samples < accepted) {
    const page = await bench.api.batches.results.query({ batchId, offset: samples, limit: 50_000 })
    if (page.status.length === 0 || page.status.some((status) => status !== 'scored')) {
      const reason = page.reason.find((r) => r !== null)
      throw new Error(
        `${batchId}: not every sample was scored (${reason ?? 'results are missing'})`,
      )
    }
    samples += page.status.length
  }
  const t3 = performance.now()
  return {
    batchId,
    samples,
    submitMs: t1 - t0,
    scoreMs: t2 - t1,
    resultsMs: t3 - t2,
    totalMs: t3 - t0,
    perSecond: (samples / (t3 - t0)) * 1000,
  }
}

/** Waits until the batch ends. @throws when its final status is not `completed` */
export async function waitForEnd(bench: Bench, batchId: string): Promise<BatchSummary> {
  for (;;) {
    const summary = await bench.api.batches.wait.query({ batchId, waitMs: 60_000 })
    if (summary.completedAt === null) continue
    if (summary.status !== 'completed') throw new Error(`${batchId} is ${summary.status}`)
    return summary
  }
}

/**
 * Reads the groups in completion order and passes each answer to `seen`. Each answer waits until `samples` samples are
 * ready or the batch ends.
 */
export async function followGroups(
  bench: Pick<Bench, 'api'>,
  batchId: string,
  seen: (page: NextResult) => void,
  samples = 1,
): Promise<void> {
  let after: string | null = null
  for (;;) {
    const page: NextResult = await bench.api.batches.next.query({
      batchId,
      after,
      samples,
      waitMs: 60_000,
    })
    seen(page)
    after = page.cursor
    if (page.done) return
  }
}
