import type { FunctionCall } from './function-call.ts'

export interface DispatchedCall {
  id: number
  call: FunctionCall
  /** Time when the call began, by `performance.now()`; null while it waits in the process. */
  startedAtMs: number | null
  /** Total time for which the process had been blocked when the call began, ms. */
  heldUpAtStartMs: number
}

/** How a process ended (it was killed or exited by itself), and the calls that it was running. */
export interface Incident {
  reason: 'timeout' | 'function_error'
  detail: string
  culprit: DispatchedCall | null
  /** Whether the culprit is certain; otherwise it runs again, alone. */
  certain: boolean
  /** Calls that had begun, except the culprit if `certain` is true. */
  started: DispatchedCall[]
  waiting: DispatchedCall[]
}
