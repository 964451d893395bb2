import { existsSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The history of an episode: the actions and observations of every process outside the product. Each process writes
 * one file with one JSON line per event. `at` is epoch ms; all processes run on one machine, so their times can be
 * compared.
 */
export type HistoryEvent =
  | CallEvent
  | AnswerEvent
  | AbandonedEvent
  | ModelStartEvent
  | ModelEndEvent
  | HarnessEvent

export interface CallEvent {
  e: 'call'
  at: number
  n: number
  op: string
  key: string
  detail?: Record<string, unknown>
}

/** A call by the trainer ended with data, with a refusal, or without an answer (`status` 0). */
export interface AnswerEvent {
  e: 'answer'
  at: number
  n: number
  op: string
  key: string
  status: number
  reason?: string
  message?: string
  data?: unknown
}

export interface AbandonedEvent {
  e: 'abandoned'
  at: number
  key: string
  why: string
}

export interface ModelStartEvent {
  e: 'rm-start'
  at: number
  server: number
  n: number
  ids: string[]
}

/** The reward model ends a request: `answered` with scores or a refusal, `aborted` because the caller disconnected. */
export interface ModelEndEvent {
  e: 'rm-end'
  at: number
  server: number
  n: number
  outcome: 'answered' | 'aborted'
}

export type HarnessEvent =
  | { e: 'phase'; at: number; name: string }
  | { e: 'slowness'; at: number; factor: number }
  // The harness, which forwards connections, was blocked for `forMs` before `at`.
  | { e: 'delayed'; at: number; forMs: number }
  | { e: 'fault'; at: number; kind: string; what: string; detail?: Record<string, unknown> }
  | { e: 'healed'; at: number; kind: string; what: string }
  | {
      e: 'exit'
      at: number
      who: string
      code: number | null
      signal: string | null
      /** Whether the process was healthy at any time since its start. */
      wasUp: boolean
      ageMs: number
    }
  | { e: 'ready'; at: number; server: number; status: number }
  | { e: 'write'; at: number; ok: boolean; error?: string }
  | { e: 'database'; at: number; state: DatabaseState }
  | { e: 'leftover'; at: number; after: string; processes: string[] }
  | { e: 'broken'; at: number; law: string; message: string }

/** The database as read by the harness once all work should have ended. */
export interface DatabaseState {
  batches: {
    id: number
    key: string | null
    run: string
    status: string
    samples: number
    scored: number
    failed: number
    groups: number
    groupsCompleted: number
    pendingRows: number
    scoredRows: number
    failedRows: number
    /** Groups whose counts differ from their samples. */
    wrongGroups: number
  }[]
  /** Unexpired leases with slots. */
  leases: number
  claims: number
  activeJobs: number
  waitingJobs: number
  /** Samples that live workers report as in flight or claimed. */
  inFlight: number
  hedges: number
}

/** Appends events to a file. Each line is written immediately, so that a killed process loses none. */
export class HistoryFile {
  readonly #fd: number

  constructor(path: string) {
    this.#fd = openSync(path, 'a')
  }

  add(event: HistoryEvent): void {
    writeSync(this.#fd, `${JSON.stringify(event)}\n`)
  }
}

/** Reads the events of one file. Skips the incomplete last line of a killed process. */
export function readEvents(path: string): HistoryEvent[] {
  if (!existsSync(path)) return []
  const events: HistoryEvent[] = []
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (line === '') continue
    try {
      events.push(JSON.parse(line) as HistoryEvent)
    } catch {
      // The process was killed while writing this line.
    }
  }
  return events
}

/** Matches log lines that show a defect, such as results that the database refused although it was available. */
const DEFECT = /unhandled|uncaught|orphaned samples returned|results could not be written/i

export interface History {
  seed: number
  events: HistoryEvent[]
  /** Log lines of the product about unhandled errors or defects. */
  unhandled: string[]
}

export function loadHistory(folder: string, seed: number): History {
  const files = readdirSync(folder)
  const events = files
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readEvents(join(folder, name)))
    .sort((a, b) => a.at - b.at)
  const unhandled = files
    .filter((name) => name.endsWith('.log'))
    .flatMap((name) =>
      readFileSync(join(folder, name), 'utf8')
        .split('\n')
        .filter((line) => DEFECT.test(line))
        .map((line) => `${name}: ${line.slice(0, 500)}`),
    )
  return { seed, events, unhandled }
}
