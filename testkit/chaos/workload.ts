import { hash32, Random } from './random.ts'

export const MODEL = 'chaos-rm'

export interface TrainerJob {
  /** Unique in an episode; part of every uid, text and idempotency key. */
  key: string
  /**
   * `submit`: a whole batch. `stream`: an open batch with appends. `single`: single samples by `samples.score`. `router`:
   * calls of the reward model through the router address.
   */
  kind: 'submit' | 'stream' | 'single' | 'router'
  scorer: 'model' | 'rule'
  samples: number
  groupSize: number
  startsAfterMs: number
  maxConcurrency: number | null
  /** Time from acceptance to cancellation, ms, or null if the batch is not cancelled. */
  cancelAfterMs: number | null
  /** Whether the batch is submitted twice concurrently with one idempotency key. */
  isDoubled: boolean
  /** The reward's `timeoutMs`, or null for the default, which is longer than any fault. */
  timeoutMs: number | null
  /** The parameter `samples` of the job's `batches.next` calls. */
  readSamples: number
}

export interface Workload {
  jobs: TrainerJob[]
  /** The registered limit of the reward-model server. */
  maxInFlight: number
  /** Bounds of the latency of a text, ms. The text's hash determines its latency. */
  latencyMs: [number, number]
}

/** Draws the workload of a seed, which the trainer executes and the checker expects. */
export function workloadOf(seed: number): Workload {
  const random = new Random(hash32(`workload/${seed}`))
  const isFast = random.chance(0.25)
  const latencyMs: [number, number] = isFast ? [1, 4] : [40, random.pick([200, 400, 800, 1_500])]
  const limit = random.pick([2, 4, 8, 8, 16])
  // With many slots, a fast model receives micro-batches.
  const maxInFlight = isFast && limit >= 8 ? 4 * limit : limit
  const meanMs = isFast ? 2 : (latencyMs[1] - latencyMs[0]) / Math.log(latencyMs[1] / latencyMs[0])
  // About eight seconds of work for the model: between 48 and 240 samples if it is slow.
  const budget = isFast ? 600 : clamp(Math.round((8_000 / meanMs) * maxInFlight), 48, 240)
  const jobs: TrainerJob[] = []
  const add = (job: Partial<TrainerJob> & Pick<TrainerJob, 'kind' | 'scorer' | 'samples'>) =>
    jobs.push({
      key: `${job.kind[0]}${job.scorer[0]}${jobs.length}`,
      groupSize: random.pick([1, 4, 4, 8]),
      startsAfterMs: 0,
      maxConcurrency: null,
      cancelAfterMs: null,
      isDoubled: false,
      timeoutMs: null,
      readSamples: random.pick([1, 16, 64]),
      ...job,
    })
  add({ kind: 'submit', scorer: 'model', samples: Math.round(budget * 0.5), isDoubled: true })
  add({ kind: 'submit', scorer: 'rule', samples: 160, startsAfterMs: random.int(0, 1_500) })
  add({
    kind: 'stream',
    scorer: random.pick(['model', 'rule']),
    samples: Math.max(16, Math.round(budget * 0.2)),
    startsAfterMs: random.int(0, 1_000),
  })
  add({ kind: 'single', scorer: 'model', samples: 12, startsAfterMs: random.int(0, 1_000) })
  add({ kind: 'single', scorer: 'rule', samples: 16, startsAfterMs: random.int(0, 2_000) })
  add({
    kind: 'submit',
    scorer: 'model',
    samples: Math.max(12, Math.round(budget * 0.15)),
    startsAfterMs: random.int(200, 3_000),
    maxConcurrency: random.pick([1, 2, 3]),
    isDoubled: random.chance(0.5),
  })
  add({
    kind: 'submit',
    scorer: 'model',
    samples: Math.max(16, Math.round(budget * 0.2)),
    startsAfterMs: random.int(500, 2_500),
    cancelAfterMs: random.int(100, 2_500),
  })
  add({
    kind: 'submit',
    scorer: 'model',
    samples: 16,
    startsAfterMs: random.int(0, 3_000),
    timeoutMs: 2_500,
  })
  // Work keeps arriving during faults: a rule batch about every 1.5 s.
  for (let k = 0; k < 5; k++) {
    add({
      kind: k % 2 === 0 ? 'submit' : 'stream',
      scorer: 'rule',
      samples: 48,
      startsAfterMs: 1_500 * (k + 1) + random.int(0, 800),
      isDoubled: random.chance(0.3),
    })
  }
  // The job's callers could fill the limit twice, so the server processes must share the limit.
  add({ kind: 'router', scorer: 'model', samples: 4 * maxInFlight, startsAfterMs: 700 })
  return { jobs, maxInFlight, latencyMs }
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value))
}

export function batchKey(job: TrainerJob): string {
  return `chaos-${job.key}`
}

/** The run of a job. Each job of single samples has its own run, which has an implicit batch. */
export function runOf(job: TrainerJob): string {
  return job.kind === 'single' ? `chaos-${job.key}` : 'chaos'
}

export interface SentSample {
  uid: string
  dataSource: string
  prompt: string
  response: string
  groundTruth: string | null
}

export function sampleOf(job: TrainerJob, index: number): SentSample {
  const id = `${job.key}:${index}`
  const uid = `${job.key}-g${Math.floor(index / job.groupSize)}`
  if (job.scorer === 'model') {
    return {
      uid,
      dataSource: 'chaos',
      prompt: `Question of group ${uid}.`,
      response: `<<${id}>> ${'word '.repeat(isTooLong(job, index) ? 400 : 1 + (hash32(id) % 40))}end`,
      groundTruth: null,
    }
  }
  const answer = hash32(id) % 100
  const isRight = hash32(`right/${id}`) % 3 !== 0
  return {
    uid,
    dataSource: 'openai/gsm8k',
    prompt: `Question of group ${uid}.`,
    response: `Thinking about ${id}. #### ${answer}`,
    groundTruth: String(isRight ? answer : answer + 1),
  }
}

/** Whether the model refuses a sample, which then fails as `context_exceeded`. */
export function isTooLong({ kind, scorer }: TrainerJob, index: number): boolean {
  return kind === 'submit' && scorer === 'model' && index % 10 === 7
}

/** The expected score of a sample, a pure function of its text, or null if the sample must fail. */
export function expectedScore(job: TrainerJob, index: number): number | null {
  if (isTooLong(job, index)) return null
  const { response, groundTruth } = sampleOf(job, index)
  if (job.scorer === 'model') return modelScore(response)
  return response.endsWith(`#### ${groundTruth}`) ? 1 : 0
}

export const MAX_TEXT_CHARS = 1_000

/** The score of a response, from −8 to 8 in steps of 1/4096, which JSON and doubles represent exactly. */
export function modelScore(response: string): number {
  return (hash32(response) % 65_536) / 4_096 - 8
}

/** The sample id in a text, and the response that begins with it; null for other texts. */
export function markedText(text: string): { id: string; response: string } | null {
  const at = /<<([^<>]+)>>/.exec(text)
  return at === null ? null : { id: at[1] as string, response: text.slice(at.index) }
}

/** The latency of the answer to a text, in ms: log-uniform between the bounds, derived from the text's hash. */
export function latencyOf(response: string, [min, max]: readonly [number, number]): number {
  return min * (max / min) ** (hash32(`latency/${response}`) / 4_294_967_296)
}
