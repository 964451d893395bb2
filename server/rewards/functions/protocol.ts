import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { ChatReply, ChatRequest, ScoreInput } from '../../router/router-types.ts'
import type { RewardSample } from '../managers/manager.ts'
import type { ReadResult } from './read-result.ts'

/**
 * What a worker and a child process that runs user code say to each other. Over a channel (host-frames.ts): calls, results,
 * what a function asks of the router. Over a pipe of its own: marks, written synchronously, which are there even when
 * the next instruction ends the process.
 */

/** What is called: an export of a version, made once a process. */
export interface FunctionTarget {
  /** Names the target in calls. */
  key: string
  /** Where the version lies on disk. */
  dir: string
  /** Its file, relative to `dir`. */
  path: string
  /** The export; null: the default one, `compute_score` or `computeScore`. */
  name: string | null
  kwargs: Record<string, unknown>
  /** A reward function, or a manager class that wraps whatever else scores. */
  role: 'function' | 'manager'
  /** Of a manager: the function it wraps, where that is one of the user's own. */
  wraps?: FunctionTarget
}

/** A sample with what its function is to know of it. */
export interface CallOfSample {
  sample: RewardSample
  /** Beside those of the target, which win. */
  kwargs: Record<string, unknown>
}

/** What is to be done in one call. */
export type CallWork =
  | ({ op: 'score' } & CallOfSample)
  /** All members of a group, in one call with lists. */
  | { op: 'group'; samples: RewardSample[]; kwargs: Record<string, unknown> }
  /** A built-in rule, in a process that can be killed. */
  | { op: 'rule'; sample: RewardSample; reward: ResolvedReward }
  /** One of the object's further methods, by the first name that it has; without names what scores, as it is. */
  | { op: 'method'; names: string[]; args: unknown[] }

/** From the worker to the child. */
export type ToHost =
  /** To be loaded and constructed; answered by `loaded`. */
  | { type: 'load'; target: FunctionTarget }
  /** Only loaded, and looked at; answered by `inspected`. */
  | { type: 'inspect'; target: FunctionTarget }
  /** `target` is null for built-in rules. */
  | { type: 'call'; id: number; target: string | null; work: CallWork; about: CallAbout }
  /** Nobody waits for this call any more. */
  | { type: 'abort'; id: number; why: string }
  | { type: 'answer'; request: number; answer: RouterAnswer }

/** Beside the sample, what a call's context tells. */
export interface CallAbout {
  sampleId: string
  run: string
  rewardRouterAddress: string | null
}

/** What a function asks of its worker. */
export type RouterQuestion =
  | { op: 'score'; model: string; input: ScoreInput; options: RouterCallOptions }
  | { op: 'chat'; model: string; chat: ChatRequest; options: RouterCallOptions }
  /** The chat template that the model was registered with. */
  | { op: 'template'; model: string }
  /** What a manager class wraps, where it is not a function of the user's own. */
  | { op: 'wrapped'; sample: RewardSample }

/** Of one question to the router. */
export interface RouterCallOptions {
  /** Default: what is left of the sample's own time. */
  timeoutMs?: number
  /** Default: the batch's. */
  maxAttempts?: number
}

/** What it is told. */
export type RouterAnswer =
  | { ok: true; score: number; extra: Record<string, unknown> | null }
  | { ok: true; reply: ChatReply }
  | { ok: true; template: string }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** How one call ended. `sync`: its function returned a value, not a promise. `busyMs`: until it returned. */
export interface CallEnd {
  type: 'end'
  id: number
  sync: boolean
  busyMs: number
  end:
    | { ok: true; score: number; extra: Record<string, unknown> | null; rawScore?: number }
    | { ok: true; value: unknown }
    | { ok: true; results: ReadResult[] }
    | { ok: false; reason: SampleFailureReason; detail: string }
}

/** How an export can be called. */
export type FunctionForm = 'function' | 'class' | 'object'

/** What is in a module. */
export type Inspected =
  | { ok: true; form: FunctionForm; methods: string[] }
  /** `exports`: those that can be called. */
  | { ok: false; message: string; exports: string[] }

/** From the child to the worker. */
export type FromHost =
  | { type: 'loaded'; key: string; error: string | null }
  | { type: 'inspected'; result: Inspected }
  | CallEnd
  | { type: 'ask'; call: number; request: number; question: RouterQuestion }
  /** `leftOut`: lines before it that were over the limit a second. */
  | {
      type: 'log'
      call: number
      level: LogLevel
      message: string
      fields: object | null
      leftOut: number
    }
  /** Of its loop's time, the part in which it was busy, 0 to 1; once in 250 ms while it has calls. */
  | { type: 'load-average'; busy: number }
  /** An error nobody caught: the process is not to be trusted with more. */
  | { type: 'spent'; why: string }

/** Levels of a function's logger. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/**
 * A line of the pipe of marks: a letter, then numbers, divided by blanks.
 * - `S id`: the call begins · `R id`: it returned a promise, which is not settled
 * - `B ms id`: the process has not answered for so long; a call that runs, or 0 where nobody could be named · `U`: it answers
 * - `M bytes id`: it is over its memory limit
 * - `X code id`: it ends itself
 */
export type Mark =
  | { kind: 'S' | 'R'; id: number }
  | { kind: 'B'; ms: number; id: number }
  | { kind: 'U' }
  | { kind: 'M'; bytes: number; id: number }
  | { kind: 'X'; code: number; id: number }

/** Reads a line; null for what is none of them: user code can write to the pipe too. */
export function readMark(line: string): Mark | null {
  const match = /^([SRBUMX])(?: (-?\d{1,15}))?(?: (\d{1,15}))?$/.exec(line)
  if (match === null) return null
  const kind = match[1] as Mark['kind']
  const numbers = match.slice(2).filter((text) => text !== undefined)
  const [a, b] = numbers.map(Number) as [number, number]
  if (numbers.length !== { S: 1, R: 1, B: 2, U: 0, M: 2, X: 2 }[kind]) return null
  switch (kind) {
    case 'S':
    case 'R':
      return { kind, id: a }
    case 'B':
      return { kind, ms: a, id: b }
    case 'U':
      return { kind }
    case 'M':
      return { kind, bytes: a, id: b }
    case 'X':
      return { kind, code: a, id: b }
  }
}

/** Of the list that a method gave: a number that JSON does not have, as it travels. */
interface NonFinite {
  nonFinite: string
}

/** A method's value as it travels: the numbers of a list keep being numbers, `NaN` and infinities included. */
export function packValue(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.map((entry) =>
    typeof entry === 'number' && !Number.isFinite(entry)
      ? ({ nonFinite: String(entry) } satisfies NonFinite)
      : entry,
  )
}

/** The value that {@link packValue} was given. */
export function unpackValue(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.map((entry) => {
    const told = (entry as Partial<NonFinite> | null)?.nonFinite
    return typeof told === 'string' ? Number(told) : entry
  })
}

/** The channel in the child: after stdin, stdout and stderr. */
export const CHANNEL_FD = 3
/** The pipe of marks in the child. */
export const MARKS_FD = 4
/** Lines that a function's logger writes a second; those beyond are counted. */
export const MAX_LOG_LINES_PER_SECOND = 1_000
/** Of the numbers shared between the child's threads: the call whose code is on the stack, the last ping answered. */
export const SHARED = { running: 0, pong: 1, length: 2 } as const
