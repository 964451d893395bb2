import type { FunctionCall } from './function-call.ts'

/** A call in a process. */
export interface DispatchedCall {
  id: number
  call: FunctionCall
  /** On the clock of `performance.now()`; null: it waits inside. */
  startedAtMs: number | null
  /** How long others had held the process up when it began. */
  heldUpAtStartMs: number
}

/** Why a process was ended, or ended itself, with calls in it. */
export interface Incident {
  reason: 'timeout' | 'function_error'
  /** For the culprit's failure and the log. */
  detail: string
  /** The culprit, as far as one is named. */
  culprit: DispatchedCall | null
  /** Whether it is: otherwise it runs alone to be sure. */
  certain: boolean
  /** Those that had begun, without a certain culprit. */
  started: DispatchedCall[]
  /** Those that had not. */
  waiting: DispatchedCall[]
}
