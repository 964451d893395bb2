import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { type AnswerEvent, HistoryFile, readEvents } from './history.ts'
import { batchKey, MODEL, runOf, sampleOf, type TrainerJob, workloadOf } from './workload.ts'

/**
 * A trainer in a separate process. It runs the jobs of its workload and follows every batch to its end, despite
 * temporary refusals. After a kill it continues from its own history, with the same keys and the last cursors.
 *
 *   node trainer-process.ts SEED HISTORY_FILE URL [URL …]
 *
 * Exits with 0 when all jobs are done.
 */
const [seedText, file, ...urls] = process.argv.slice(2)
const workload = workloadOf(Number(seedText))
const past = readEvents(file as string)
const history = new HistoryFile(file as string)
const agent = new Agent({ connections: 64, keepAliveTimeout: 4_000 })

/** Time limit of a call. A call that exceeds it is repeated. */
const CALL_MS = 10_000
/** `waitMs` of `batches.next`. */
const WAIT_MS = 3_000
const AGAIN_MS = 150
const SINGLES_AT_ONCE = 4

let calls = past.reduce((most, event) => ('n' in event ? Math.max(most, event.n) : most), 0)
const beganAt = past.find((event) => event.e === 'call')?.at ?? Date.now()

interface SubmitAnswer {
  batchId: string
}
interface NextAnswer {
  cursor: string
  done: boolean
}
interface SingleAnswer {
  batchId: string
}

/** A permanent refusal of a call. */
class Refused extends Error {}

async function until<T>(op: string, key: string, input: () => unknown, detail = {}): Promise<T> {
  for (;;) {
    const answer = await send(op, key, input(), detail)
    if (answer.status === 200) return answer.data as T
    const mayPass = answer.status === 0 || answer.status === 429 || answer.status >= 500
    if (!mayPass) throw new Refused(`${op} ${key}: ${answer.status} ${answer.reason}`)
    await sleep(AGAIN_MS * (0.5 + Math.random()))
  }
}

async function send(op: string, key: string, input: unknown, detail = {}): Promise<AnswerEvent> {
  const n = ++calls
  history.add({ e: 'call', at: Date.now(), n, op, key, detail })
  const answer: AnswerEvent = { e: 'answer', at: 0, n, op, key, status: 0 }
  try {
    const url = `${urls[n % urls.length]}${op.startsWith('/') ? op : `/api/trpc/${op}`}`
    const response = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(input),
      dispatcher: agent,
      signal: AbortSignal.timeout(CALL_MS),
    })
    const text = await response.body.text()
    const json = JSON.parse(text) as {
      result?: { data: unknown }
      error?: { message: string; reason?: string; data?: { reason?: string } }
    }
    answer.status = response.statusCode
    if (json.error) {
      answer.reason = json.error.data?.reason ?? json.error.reason ?? ''
      answer.message = json.error.message
    } else answer.data = op.startsWith('/') ? json : json.result?.data
  } catch (error) {
    answer.status = 0
    answer.message = `${(error as Error).name}: ${(error as Error).message}`
  }
  answer.at = Date.now()
  history.add(answer)
  return answer
}

function pastAnswers(op: string, key: string): AnswerEvent[] {
  return past.filter(
    (event): event is AnswerEvent =>
      event.e === 'answer' && event.op === op && event.key === key && event.status === 200,
  )
}

function envelope(job: TrainerJob, samples: number, open: boolean) {
  return {
    run: runOf(job),
    step: 1,
    groupSize: job.groupSize,
    open,
    reward: rewardOf(job),
    samples: Array.from({ length: samples }, (_, i) => sampleOf(job, i)),
    idempotencyKey: batchKey(job),
  }
}

function rewardOf(job: TrainerJob) {
  return {
    ...(job.scorer === 'model' ? { model: MODEL } : {}),
    ...(job.timeoutMs === null ? {} : { timeoutMs: job.timeoutMs }),
    ...(job.maxConcurrency === null ? {} : { maxConcurrency: job.maxConcurrency }),
  }
}

async function submitJob(job: TrainerJob): Promise<void> {
  const input = () => envelope(job, job.samples, false)
  const known = pastAnswers('batches.submit', job.key).at(-1)?.data as SubmitAnswer | undefined
  const submit = () => until<SubmitAnswer>('batches.submit', job.key, input)
  const twice = job.isDoubled && known === undefined ? submit() : null
  const { batchId } = known ?? (await submit())
  await twice
  const cancelled =
    job.cancelAfterMs === null
      ? null
      : sleep(job.cancelAfterMs).then(() => until('batches.cancel', job.key, () => ({ batchId })))
  await follow(job, batchId)
  await cancelled
}

async function streamJob(job: TrainerJob): Promise<void> {
  const part = Math.max(job.groupSize, 12)
  const known = pastAnswers('batches.submit', job.key).at(-1)?.data as SubmitAnswer | undefined
  const first = Math.min(part, job.samples)
  const { batchId } =
    known ??
    (await until<SubmitAnswer>('batches.submit', job.key, () => envelope(job, first, true)))
  const followed = follow(job, batchId)
  const isClosed = pastAnswers('batches.close', job.key).length > 0
  for (let start = first; start < job.samples && !isClosed; start += part) {
    const end = Math.min(start + part, job.samples)
    const samples = Array.from({ length: end - start }, (_, i) => sampleOf(job, start + i))
    const input = { batchId, startIndex: start, samples }
    const append = () => until('batches.append', job.key, () => input, { start, end })
    // The first append is sent twice concurrently, like a retry after a lost answer.
    await Promise.all(start === first ? [append(), append()] : [append()])
    await sleep(100)
  }
  await until('batches.close', job.key, () => ({ batchId }))
  await followed
}

async function follow(job: TrainerJob, batchId: string): Promise<void> {
  const last = pastAnswers('batches.next', job.key).at(-1)?.data as NextAnswer | undefined
  let after = last?.cursor ?? null
  for (let isDone = last?.done ?? false; !isDone; ) {
    const cursor = after
    const next = await until<NextAnswer>(
      'batches.next',
      job.key,
      () => ({ batchId, after: cursor, samples: job.readSamples, waitMs: WAIT_MS }),
      { after: cursor },
    )
    after = next.cursor
    isDone = next.done
  }
  await until('batches.results', job.key, () => ({ batchId }))
  // A second cursor chain must deliver the same groups in the same order.
  const detail = { after: null, isReread: true }
  await until('batches.next', `${job.key}/reread`, () => ({ batchId, samples: 1_000_000 }), detail)
}

async function singleJob(job: TrainerJob): Promise<void> {
  let next = 0
  let batchId = ''
  const one = async () => {
    while (next < job.samples) {
      const index = next++
      const key = `${job.key}/${index}`
      const input = () => ({
        run: runOf(job),
        step: 1,
        reward: rewardOf(job),
        sample: sampleOf(job, index),
        idempotencyKey: `${batchKey(job)}-${index}`,
      })
      const known = pastAnswers('samples.score', key).at(-1)?.data as SingleAnswer | undefined
      batchId = (known ?? (await until<SingleAnswer>('samples.score', key, input))).batchId
      // A repeated key must give the same result.
      if (index % 4 === 0) await until('samples.score', key, input)
    }
  }
  await Promise.all(Array.from({ length: SINGLES_AT_ONCE }, one))
  await until('batches.close', job.key, () => ({ batchId }))
}

async function routerJob(job: TrainerJob): Promise<void> {
  let next = 0
  const one = async () => {
    while (next < job.samples) {
      const index = next++
      const key = `${job.key}/${index}`
      if (pastAnswers('/predict', key).length > 0) continue
      const { response } = sampleOf(job, index)
      await until('/predict', key, () => ({ model: MODEL, inputs: [[response]], raw_scores: true }))
    }
  }
  await Promise.all(Array.from({ length: 2 * workload.maxInFlight }, one))
}

const work = { submit: submitJob, stream: streamJob, single: singleJob, router: routerJob }

await Promise.all(
  workload.jobs.map(async (job) => {
    await sleep(Math.max(0, beganAt + job.startsAfterMs - Date.now()))
    try {
      await work[job.kind](job)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      history.add({ e: 'abandoned', at: Date.now(), key: job.key, why: error.message })
    }
  }),
)
process.exit(0)
