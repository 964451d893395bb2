import type { FaultName } from './faults.ts'

/** Maximum number of individually recorded texts; further texts are only counted. */
export const MAX_TEXTS_RECORDED = 10_000

export interface TextRecord {
  /** The text's {@link textId}. */
  id: string
  route: string
  /** Arrival time in epoch ms. */
  atMs: number
  /** End time in epoch ms, or null while the text is in flight. */
  endedAtMs: number | null
  /** `answered` with 2xx, `refused` with anything else, `aborted` by the client, `cut` by the server. */
  outcome: 'open' | 'answered' | 'refused' | 'aborted' | 'cut'
  status: number | null
}

/** A call of a sleep or wake route. */
export interface LifecycleCall {
  route: string
  atMs: number
  inFlight: number
}

/** Counters of a server since its start or the last `resetStats`. */
export interface ServerCounters {
  /** Calls by route (`POST /classify`) and status; `aborted` and `cut` for calls without a whole answer. */
  calls: Record<string, Record<string, number>>
  /** Valid scoring and judging requests. `answered` counts the ones answered with 2xx. */
  requests: number
  answered: number
  inFlight: number
  maxInFlight: number
  textsInFlight: number
  maxTextsInFlight: number
  textsTotal: number
  /** Tokens of answered texts. */
  tokensDone: number
  /** Requests whose client disconnected. */
  aborted: number
  faults: Partial<Record<FaultName, number>>
  connections: number
  state: 'up' | 'down' | 'hanging' | 'asleep'
}

export interface ServerStats extends ServerCounters {
  lifecycle: LifecycleCall[]
  texts: TextRecord[]
}

export class Ledger {
  #calls: Record<string, Record<string, number>> = {}
  #requests = 0
  #answered = 0
  #inFlight = 0
  #maxInFlight = 0
  #textsInFlight = 0
  #maxTextsInFlight = 0
  #textsTotal = 0
  #tokensDone = 0
  #aborted = 0
  #faults: Partial<Record<FaultName, number>> = {}
  #lifecycle: LifecycleCall[] = []
  #texts: TextRecord[] = []

  get textsInFlight(): number {
    return this.#textsInFlight
  }

  /** Resets the counters and records. Requests in flight are still counted. */
  reset(): void {
    this.#calls = {}
    this.#requests = 0
    this.#answered = 0
    this.#maxInFlight = this.#inFlight
    this.#maxTextsInFlight = this.#textsInFlight
    this.#textsTotal = 0
    this.#tokensDone = 0
    this.#aborted = 0
    this.#faults = {}
    this.#lifecycle = []
    this.#texts = []
  }

  called(route: string, outcome: number | 'aborted' | 'cut'): void {
    this.#calls[route] ??= {}
    const of = this.#calls[route]
    of[outcome] = (of[outcome] ?? 0) + 1
  }

  /** Records a request with these texts. Returns a function to call once at its end. */
  began(
    route: string,
    ids: readonly string[],
  ): (outcome: TextRecord['outcome'], status: number | null, tokensDone: number) => void {
    const atMs = Date.now()
    const records: TextRecord[] = []
    for (const id of ids) {
      this.#textsTotal += 1
      if (this.#texts.length >= MAX_TEXTS_RECORDED) continue
      const record: TextRecord = { id, route, atMs, endedAtMs: null, outcome: 'open', status: null }
      this.#texts.push(record)
      records.push(record)
    }
    this.#requests += 1
    this.#inFlight += 1
    this.#textsInFlight += ids.length
    this.#maxInFlight = Math.max(this.#maxInFlight, this.#inFlight)
    this.#maxTextsInFlight = Math.max(this.#maxTextsInFlight, this.#textsInFlight)
    let ended = false
    return (outcome, status, tokensDone) => {
      if (ended) return
      ended = true
      this.#inFlight -= 1
      this.#textsInFlight -= ids.length
      this.#tokensDone += tokensDone
      if (outcome === 'answered') this.#answered += 1
      if (outcome === 'aborted') this.#aborted += 1
      const endedAtMs = Date.now()
      for (const record of records) Object.assign(record, { endedAtMs, outcome, status })
    }
  }

  struck(name: FaultName): void {
    this.#faults[name] = (this.#faults[name] ?? 0) + 1
  }

  lifecycle(route: string): void {
    this.#lifecycle.push({ route, atMs: Date.now(), inFlight: this.#textsInFlight })
  }

  counters(now: Pick<ServerCounters, 'connections' | 'state'>): ServerCounters {
    return {
      calls: structuredClone(this.#calls),
      requests: this.#requests,
      answered: this.#answered,
      inFlight: this.#inFlight,
      maxInFlight: this.#maxInFlight,
      textsInFlight: this.#textsInFlight,
      maxTextsInFlight: this.#maxTextsInFlight,
      textsTotal: this.#textsTotal,
      tokensDone: this.#tokensDone,
      aborted: this.#aborted,
      faults: { ...this.#faults },
      ...now,
    }
  }

  stats(now: Pick<ServerCounters, 'connections' | 'state'>): ServerStats {
    return {
      ...this.counters(now),
      lifecycle: [...this.#lifecycle],
      texts: this.#texts.map((record) => ({ ...record })),
    }
  }
}
