import { type Answer, type Call, json } from './call.ts'
import { Capacity, type Ticket } from './capacity.ts'
import type { Clock } from './clock.ts'
import type { Dialect } from './dialects/dialect.ts'
import { Draws } from './draw.ts'
import {
  drawFaults,
  type FaultName,
  type FaultSettings,
  retryAfterHeaders,
  type Struck,
  UNSTRUCK,
} from './faults.ts'
import { featureLogit } from './features.ts'
import { drawLatencyMs, latencyOfText } from './latency.ts'
import { Ledger } from './ledger.ts'
import type { ServerSettings } from './options.ts'
import { PrefixCache } from './prefix-cache.ts'
import { logitOf } from './text.ts'

export interface Job {
  id: string
  prompt: string
  response: string
  promptTokens: number
  /** Tokens of prompt and response. */
  tokens: number
  /** Time added to the processing time of the tokens, such as the time to write a reply. Default 0. */
  fixedMs?: number
}

export interface Outcome {
  struck: Struck
  /** Share of the reply that was written when the engine aborted the request, or null if it was not aborted. */
  abortedAt: number | null
}

export interface Running {
  /** Elapsed share of `fixedMs`, 0 to 1; the minimum over the texts. */
  progress(): number
}

interface Active {
  call: Call
  jobs: readonly Job[]
  tickets: Ticket[]
  start(): void
  giveUp(): void
}

const PROXY_PAGE =
  '<!doctype html><html><head><title>A proxy</title></head><body>Busy</body></html>'
/** Changes the seed of the weights after a level-2 sleep, when their memory has arbitrary content. */
const GARBAGE_WEIGHTS = 0xbad
/** The parts of the engine's memory that can sleep, under vLLM's names. */
const MEMORY = ['weights', 'kv_cache']

/** The engine behind the routes, without sockets: capacity, faults, sleep and records. */
export class Simulation {
  settings: ServerSettings
  faults: FaultSettings = {}
  readonly ledger = new Ledger()
  readonly cache: PrefixCache
  readonly startedAtMs = Date.now()
  readonly dialect: Dialect
  /** Ends the simulated process; set by the server. */
  crash: () => void = () => {}
  readonly #capacity: Capacity
  readonly #clock: Clock
  readonly #draws: Draws
  readonly #active = new Set<Active>()
  /** Requests accepted while asleep or falling asleep. */
  readonly #parked = new Set<Active>()
  readonly #asleep = new Set<string>()
  #parking = false
  #garbage = false
  #hanging = false
  #textsToHang: number | null = null
  #loadingUntilMs: number
  #drained: (() => void)[] = []

  constructor(settings: ServerSettings, dialect: Dialect, clock: Clock) {
    this.settings = settings
    this.dialect = dialect
    this.#clock = clock
    this.#draws = new Draws(settings.seed)
    this.cache = new PrefixCache(settings.prefixGroups)
    this.#capacity = new Capacity(clock, this.#capacitySettings())
    this.#loadingUntilMs = clock.now() + settings.loadingMs
  }

  change(change: Partial<ServerSettings>): void {
    this.settings = { ...this.settings, ...change }
    this.cache.groups = this.settings.prefixGroups
    this.#capacity.set(this.#capacitySettings())
  }

  hangAfter(texts: number | null): void {
    this.#textsToHang = texts === 0 ? null : texts
    this.#setHanging(texts === 0)
  }

  get hanging(): boolean {
    return this.#hanging
  }

  get loading(): boolean {
    return this.#clock.now() < this.#loadingUntilMs
  }

  get asleep(): boolean {
    return this.#asleep.size > 0
  }

  get asleepParts(): ReadonlySet<string> {
    return this.#asleep
  }

  get weights(): number {
    return this.#garbage ? this.settings.weights ^ GARBAGE_WEIGHTS : this.settings.weights
  }

  /** Number of texts in progress or waiting. */
  get textsTaken(): number {
    let texts = 0
    for (const active of this.#active) texts += active.jobs.length
    return texts
  }

  /** The actual numbers of running and waiting texts. The engine's metrics may misreport them. */
  trueLoad(): { running: number; waiting: number } {
    let parked = 0
    for (const active of this.#parked) parked += active.jobs.length
    return { running: this.#capacity.running, waiting: this.#capacity.waiting + parked }
  }

  reportedLoad(): { running: number; waiting: number } | null {
    switch (this.settings.metrics) {
      case 'negative':
        return { running: -1, waiting: -1 }
      case 'zero':
        return { running: 0, waiting: 0 }
      case 'absurd':
        return { running: 1e9, waiting: 1e9 }
      case 'missing':
        return null
      default:
        return this.trueLoad()
    }
  }

  /**
   * Processes the texts of a request. When all are done, `finish` creates the answer, or returns null if it has already
   * answered. Faults that need no work answer immediately, without `finish`.
   */
  run(call: Call, jobs: readonly Job[], finish: (outcome: Outcome) => Answer | null): Running {
    const { ledger, dialect } = this
    const record = ledger.began(
      call.route,
      jobs.map((job) => job.id),
    )
    const struck = this.#strike(jobs)
    let left = jobs.length
    let answered = false
    const active: Active = {
      call,
      jobs,
      tickets: [],
      start: () => {
        for (const job of jobs) active.tickets.push(this.#submit(job, struck, done))
      },
      giveUp: () => {
        const abortedAt = running.progress()
        for (const ticket of active.tickets) this.#capacity.remove(ticket)
        end({ struck: UNSTRUCK, abortedAt })
      },
    }
    const running: Running = {
      progress: () =>
        active.tickets.length === 0
          ? 0
          : Math.min(...active.tickets.map((ticket) => ticket.progress())),
    }
    const done = () => {
      left -= 1
      if (left === 0) end({ struck, abortedAt: null })
    }
    const end = (outcome: Outcome) => {
      this.#active.delete(active)
      this.#sayDrained()
      answered = true
      if (call.over) return
      const isNan = outcome.struck.fault === 'nan' && this.faults.nan?.as === 'engine'
      const answer = (isNan ? dialect.nanAnswer() : null) ?? finish(outcome)
      if (answer === null) return
      if (outcome.struck.fault === 'dieMidBody') call.sendHalf(answer)
      else call.send(answer)
    }
    call.onEnd((how) => {
      if (how === 'answered') {
        const good = call.status !== null && call.status < 300
        const tokens = good && answered ? jobs.reduce((sum, job) => sum + job.tokens, 0) : 0
        record(good ? 'answered' : 'refused', call.status, tokens)
        return
      }
      record(how, call.status, 0)
      this.#parked.delete(active)
      // If the engine cannot abort a running text, the text keeps its slot until it is done.
      const keep = !dialect.abortsRunning && how === 'aborted'
      if (!keep) this.#active.delete(active)
      for (const ticket of active.tickets) this.#capacity.remove(ticket, keep)
      this.#sayDrained()
    })

    const early = this.#early(call, struck)
    if (early !== null) return running
    this.#active.add(active)
    if (this.#parking) this.#parked.add(active)
    else active.start()
    return running
  }

  /** Raw scores of texts and their JSON form, with faults applied. */
  scored(jobs: readonly Job[], { struck }: Outcome): Scored[] {
    const weights = struck.driftedWeights ?? this.weights
    const scored = jobs.map((job, index): Scored => {
      const logit = this.#logitOf(job, weights)
      return { index, job, logit, weights, write: (value) => written(value, struck) }
    })
    const last = scored.at(-1)
    if (struck.fault === 'wrongLength' && last) scored.push({ ...last, index: scored.length })
    return scored
  }

  /**
   * Falls asleep. `abort` aborts requests in flight, `wait` lets them end first, `keep` freezes them. Later requests
   * wait until the engine wakes. Level 0 keeps the memory; level 2 loses the weights.
   */
  async sleep(mode: 'abort' | 'wait' | 'keep', level: 0 | 1 | 2): Promise<void> {
    this.#parking = true
    if (mode === 'abort') for (const active of [...this.#active]) active.giveUp()
    else if (mode === 'wait' && this.#unparked > 0) {
      await new Promise<void>((resolve) => this.#drained.push(resolve))
    }
    if (!this.#parking) return
    this.#capacity.freeze(true)
    await this.#pass(this.settings.sleepMs)
    for (const part of level === 0 ? ['scheduling'] : MEMORY) this.#asleep.add(part)
    if (level > 0) this.cache.clear()
    if (level === 2) this.#garbage = true
  }

  /** Wakes the given parts, or all. Waiting requests start when all parts are awake. */
  async wake(parts: readonly string[] | null): Promise<void> {
    if (!this.#parking) return
    await this.#pass(this.settings.wakeMs)
    for (const part of parts ?? [...this.#asleep]) this.#asleep.delete(part)
    if (this.#asleep.size > 0) return
    this.#parking = false
    this.#capacity.freeze(this.#hanging)
    const parked = [...this.#parked]
    this.#parked.clear()
    for (const active of parked) active.start()
  }

  reloadWeights(): void {
    this.#garbage = false
  }

  restart(): void {
    this.#active.clear()
    this.#parked.clear()
    this.#capacity.clear()
    this.cache.clear()
    this.#asleep.clear()
    this.#parking = false
    this.#garbage = false
    this.#textsToHang = null
    this.#setHanging(false)
    this.#loadingUntilMs = this.#clock.now() + this.settings.loadingMs
    this.#sayDrained()
  }

  /** The faults of a request. With `drawBy: 'text'`, the first text with a fault determines them. */
  #strike(jobs: readonly Job[]): Struck {
    const { drawBy, seed } = this.settings
    const onStruck = (name: FaultName) => this.ledger.struck(name)
    if (drawBy === 'arrival') return drawFaults(this.faults, this.#draws, onStruck)
    for (const { id } of jobs) {
      const draws = new Draws(seed, Number.parseInt(id.slice(8, 16), 16))
      const struck = drawFaults(this.faults, draws, onStruck)
      if (struck.fault !== null) return struck
    }
    return UNSTRUCK
  }

  /** A text's logit. Weights other than the server's own always score by the hash. */
  #logitOf(job: Job, weights: number): number {
    const { score } = this.settings
    if (score === 'hash' || weights !== this.settings.weights) return logitOf(job.id, weights)
    return score === 'constant' ? 0.5 : featureLogit(job.prompt, job.response)
  }

  /** Answers a request without any work, because of a fault or a full queue. Returns null if it did not answer. */
  #early(call: Call, struck: Struck): 'answered' | null {
    const { faults, dialect, settings } = this
    const refuse = (refusal: 'full' | 'limited', headers: Record<string, string>) => {
      const answer = dialect.refusal(refusal, this)
      call.send({ ...answer, headers: { ...answer.headers, ...headers } })
    }
    switch (struck.fault) {
      case 'drop':
        call.cut()
        return 'answered'
      case 'redirect':
        call.send({ status: 307, body: '', headers: { location: '/somewhere-else' } })
        return 'answered'
      case 'error500': {
        const delayMs = faults.error500?.delayMs ?? 0
        this.#pass(delayMs).then(() => call.send(dialect.refusal('error', this)))
        return 'answered'
      }
      case 'full503':
        refuse('full', faults.full503 ? retryAfterHeaders(faults.full503, Date.now()) : {})
        return 'answered'
      case 'limited429':
        refuse('limited', faults.limited429 ? retryAfterHeaders(faults.limited429, Date.now()) : {})
        return 'answered'
      case 'html':
        call.send({
          status: faults.html?.status ?? 200,
          body: PROXY_PAGE,
          type: 'text/html; charset=utf-8',
        })
        return 'answered'
      case 'engineDead':
        call.send(
          dialect.deadAnswer?.(faults.engineDead?.as ?? 'version', call.path, this) ??
            dialect.refusal('error', this),
        )
        return 'answered'
      case 'routeMissing':
        call.send(routeMissing(faults.routeMissing?.status ?? 404))
        return 'answered'
      case 'refused': {
        const { status = 400, message = '' } = faults.refused ?? {}
        const error = { message, type: 'BadRequestError', param: null, code: status }
        call.send(json(status, { error }))
        return 'answered'
      }
    }
    if (settings.maxQueued === null || this.textsTaken < settings.maxQueued) return null
    refuse('full', {})
    return 'answered'
  }

  #submit(job: Job, struck: Struck, done: () => void): Ticket {
    const latencyMs =
      this.settings.drawBy === 'text'
        ? latencyOfText(this.settings, job.id)
        : drawLatencyMs(this.settings, this.#draws)
    const hangs = struck.fault === 'hang'
    return this.#capacity.submit({
      begin: () => {
        this.#countDown()
        if (hangs) return 0
        const prompt = this.cache.take(job.prompt, job.promptTokens)
        return (prompt + job.tokens - job.promptTokens) * struck.slowFactor
      },
      fixedMs: hangs
        ? Number.POSITIVE_INFINITY
        : (latencyMs + (job.fixedMs ?? 0)) * struck.slowFactor,
      done,
    })
  }

  #countDown(): void {
    if (this.#textsToHang === null) return
    this.#textsToHang -= 1
    if (this.#textsToHang > 0) return
    this.#textsToHang = null
    this.#setHanging(true)
  }

  #setHanging(hanging: boolean): void {
    this.#hanging = hanging
    this.#capacity.freeze(hanging || this.#asleep.size > 0)
  }

  get #unparked(): number {
    return this.#active.size - this.#parked.size
  }

  #sayDrained(): void {
    if (this.#unparked > 0) return
    for (const resolve of this.#drained.splice(0)) resolve()
  }

  #pass(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve()
    return new Promise((resolve) => this.#clock.at(this.#clock.now() + ms, resolve))
  }

  #capacitySettings() {
    const { tokensPerSecond, saturation, running, speed } = this.settings
    return {
      tokensPerSecond: tokensPerSecond ?? Number.POSITIVE_INFINITY,
      saturation,
      running,
      speed,
    }
  }
}

/** Returns the answer of an engine without the route: for 501 that of llama.cpp, otherwise that of FastAPI. */
function routeMissing(status: 404 | 405 | 501): Answer {
  if (status === 404) return json(404, { detail: 'Not Found' })
  if (status === 405) return json(405, { detail: 'Method Not Allowed' })
  const message = 'This server does not support reranking. Start it with `--reranking`'
  return json(501, { error: { code: 501, message, type: 'not_supported_error' } })
}

export interface Scored {
  index: number
  job: Job
  logit: number
  /** Seed of the weights that scored the text. */
  weights: number
  /** Formats a number for the answer: unchanged, or, because of a fault, as NaN or null. */
  write(value: number): string
}

function written(value: number, struck: Struck): string {
  if (struck.fault === 'nan') return 'NaN'
  if (struck.fault === 'null') return 'null'
  return String(value)
}
