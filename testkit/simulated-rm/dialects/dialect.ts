import type { Answer, Call } from '../call.ts'
import type { DialectName, ServerSettings } from '../options.ts'
import type { Simulation } from '../simulation.ts'

export type DialectDefaults = Pick<
  ServerSettings,
  'serves' | 'version' | 'running' | 'idleCloseMs' | 'healthDelayMs' | 'autoTruncate'
>

export type Refusal = 'error' | 'full' | 'limited' | 'unauthorized' | 'not_found' | 'method'

/** How a server whose engine has died answers. `version`: as the server's version does. Otherwise, with this status. */
export type DeadAnswer = 'version' | '400' | '200' | '500'

/** Answers one call, synchronously or later. */
export type Handler = (call: Call) => void

/** One engine's protocol. Stateless: the simulation holds the state. */
export interface Dialect {
  readonly name: DialectName
  readonly defaults: DialectDefaults
  /**
   * True if a disconnected client's texts are removed even while in progress, false if only waiting texts are removed.
   */
  readonly abortsRunning: boolean
  /** Handlers by method and path: `POST /classify`. */
  routes(simulation: Simulation): Record<string, Handler>
  requiresKey(path: string): boolean
  refusal(refusal: Refusal, simulation: Simulation): Answer
  /** Answer of a scoring route whose engine has died. Without this method, the answer is the engine's usual error. */
  deadAnswer?(as: DeadAnswer, path: string, simulation: Simulation): Answer
  /** The answer that the engine sends instead of a NaN score, or null if it sends the NaN score. */
  nanAnswer(): Answer | null
}
