import type { Isolation } from '../../contract/isolation.ts'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { ChatReply, ChatRequest, ScoreInput } from '../../router/router-types.ts'
import type { RewardSample } from '../managers/manager.ts'
import type { Finding, ReadResult } from './read-result.ts'

/**
 * Messages between a worker and a child process that runs user code. A channel (host-frames.ts) carries calls, results
 * and requests to the router. A separate pipe carries marks (`Mark`): lines that are written synchronously, so that
 * they arrive even if the process ends with the next instruction.
 */

/** A callable export of a version, constructed once per process. */
export interface FunctionTarget {
  key: string
  dir: string
  /** The version's entry file, relative to `dir`. */
  path: string
  /** The export's name; null for the default export, `compute_score` or `computeScore`. */
  name: string | null
  kwargs: Record<string, unknown>
  isolation: Isolation
  /** A reward function, or a manager class that wraps another scorer. */
  role: 'function' | 'manager'
  wraps?: FunctionTarget
}

export interface CallOfSample {
  sample: RewardSample
  /** Further fields of the function's input, including the target's kwargs. */
  kwargs: Record<string, unknown>
}

export type CallWork =
  | ({ op: 'score' } & CallOfSample)
  | { op: 'group'; samples: RewardSample[]; kwargs: Record<string, unknown> }
  | { op: 'rule'; sample: RewardSample; reward: ResolvedReward }
  /** Calls the first method in `names` that the object has, or the scoring method if `names` is empty. */
  | { op: 'method'; names: string[]; args: unknown[] }

/** Messages from the worker to the child. */
export type ToHost =
  /** Loads and constructs the target; answered by `loaded`. */
  | { type: 'load'; target: FunctionTarget }
  /** Loads and inspects the target; answered by `inspected`. */
  | { type: 'inspect'; target: FunctionTarget }
  /** `target` is null for built-in rules. */
  | { type: 'call'; id: number; target: string | null; work: CallWork; about: CallAbout }
  | { type: 'abort'; id: number; why: string }
  | { type: 'answer'; request: number; answer: RouterAnswer }

export interface CallAbout {
  sampleId: string
  run: string
  rewardRouterAddress: string | null
}

export type RouterQuestion =
  | { op: 'score'; model: string; input: ScoreInput; options: RouterCallOptions }
  | { op: 'chat'; model: string; chat: ChatRequest; options: RouterCallOptions }
  | { op: 'template'; model: string }
  /** Scores a sample by the scorer that a manager class wraps, if that scorer is not a custom function. */
  | { op: 'wrapped'; sample: RewardSample }

export interface RouterCallOptions {
  /** Time limit of the call, ms. Default: the sample's time limit. */
  timeoutMs?: number
  /** Maximum number of attempts. Default: that of the batch. */
  maxAttempts?: number
}

export type RouterAnswer =
  | ({ ok: true; score: number; extra: Record<string, unknown> | null } & Finding)
  | { ok: true; reply: ChatReply }
  | { ok: true; template: string }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** `sync` is true if the function returned a value, not a promise. `busyMs` is the time until the function returned. */
export interface CallEnd {
  type: 'end'
  id: number
  sync: boolean
  busyMs: number
  end:
    | Extract<ReadResult, { ok: true }>
    | { ok: true; value: unknown }
    | { ok: true; results: ReadResult[] }
    | { ok: false; reason: SampleFailureReason; detail: string }
}

export type FunctionForm = 'function' | 'class' | 'object'

export type Inspected =
  | { ok: true; form: FunctionForm; methods: string[] }
  | { ok: false; message: string; exports: string[] }

/** Messages from the child to the worker. */
export type FromHost =
  | { type: 'loaded'; key: string; error: string | null }
  | { type: 'inspected'; result: Inspected }
  | CallEnd
  | { type: 'ask'; call: number; request: number; question: RouterQuestion }
  /**
   * `leftOut`: number of lines dropped since the previous `log` message, because they exceeded the limit per second.
   */
  | {
      type: 'log'
      call: number
      level: LogLevel
      message: string
      fields: object | null
      leftOut: number
    }
  /** Busy fraction of the process's event loop, 0 to 1; sent every 250 ms while it has calls. */
  | { type: 'load-average'; busy: number }
  /** An uncaught error: the process takes no more calls. */
  | { type: 'spent'; why: string }

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/**
 * A status line that a function process writes to a pipe of its own: a letter, then numbers, separated by spaces.
 * - `S id`: the call begins
 * - `R id`: the call returned a promise, which is not settled
 * - `B ms id`: the process has not responded for `ms`; `id` is the running call, 0 if unknown
 * - `U`: the process responds again
 * - `M bytes id`: the process is over its memory limit
 * - `X code id`: the process exits by itself
 */
export type Mark =
  | { kind: 'S' | 'R'; id: number }
  | { kind: 'B'; ms: number; id: number }
  | { kind: 'U' }
  | { kind: 'M'; bytes: number; id: number }
  | { kind: 'X'; code: number; id: number }

/**
 * Reads a line, or returns null if it is not a mark. Any line is possible, because user code can write to the pipe too.
 */
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

interface NonFinite {
  nonFinite: string
}

/** Encodes a method's value, so that `NaN` and infinities in a list stay numbers. */
export function packValue(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.map((entry) =>
    typeof entry === 'number' && !Number.isFinite(entry)
      ? ({ nonFinite: String(entry) } satisfies NonFinite)
      : entry,
  )
}

export function unpackValue(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return value.map((entry) => {
    const nonFinite = (entry as Partial<NonFinite> | null)?.nonFinite
    return typeof nonFinite === 'string' ? Number(nonFinite) : entry
  })
}

/**
 * Path of the folder that a sandbox shares with its worker, as seen inside the sandbox, and the name of the router's
 * socket in that folder.
 */
export const SHARED_FOLDER = '/run/rewardops'
export const ROUTER_SOCKET = 'router.sock'
/** File descriptor of the channel in the child, after stdin, stdout and stderr. */
export const CHANNEL_FD = 3
export const MARKS_FD = 4
/** Maximum number of lines per second from a function's logger; further lines are dropped and counted. */
export const MAX_LOG_LINES_PER_SECOND = 1_000
/**
 * Indexes of the numbers shared between the child's threads: the call whose code is on the stack, and the last ping
 * answered.
 */
export const SHARED = { running: 0, pong: 1, length: 2 } as const
