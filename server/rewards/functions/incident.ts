import type { FunctionCall } from './function-call.ts'

/** A call in a process. */
export interface DispatchedCall {
  id: number
  call: FunctionCall
  /** On the clock of `performance.now()`; null while it waits inside. */
  startedAtMs: number | null
  /** Total time for which the process had been blocked when the call began. */
  heldUpAtStartMs: number
}

/** The end of a process with calls inside, by the worker or by itself. */
export interface Incident {
  reason: 'timeout' | 'function_error'
  /** Detail for the culprit's failure and the log. */
  detail: string
  /** The call at fault, if known. */
  culprit: DispatchedCall | null
  /** Whether the culprit is certain; otherwise it runs alone to confirm it. */
  certain: boolean
  /** Calls that had begun, except a certain culprit. */
  started: DispatchedCall[]
  /** Calls that had not begun. */
  waiting: DispatchedCall[]
}
