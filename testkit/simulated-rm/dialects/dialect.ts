import type { Answer, Call } from '../call.ts'
import type { DialectName, ServerSettings } from '../options.ts'
import type { Simulation } from '../simulation.ts'

/** Settings that differ from engine to engine. */
export type DialectDefaults = Pick<
  ServerSettings,
  'serves' | 'version' | 'running' | 'idleCloseMs' | 'healthDelayMs' | 'autoTruncate'
>

/** What an engine says, in its own shape, when it cannot answer. */
export type Refusal = 'error' | 'full' | 'limited' | 'unauthorized' | 'not_found' | 'method'

/** How a server answers whose engine died while its process lives: by its version, or as one of the known ways. */
export type DeadAnswer = 'version' | '400' | '200' | '500'

/** Answers one call, now or later. */
export type Handler = (call: Call) => void

/** One engine's protocol. Holds no state: that is the simulation's. */
export interface Dialect {
  readonly name: DialectName
  readonly defaults: DialectDefaults
  /** A client that goes away frees what is worked on for it; false: only what still waits. */
  readonly abortsRunning: boolean
  /** By method and path: `POST /classify`. */
  routes(simulation: Simulation): Record<string, Handler>
  /** Whether the key is asked for there. */
  requiresKey(path: string): boolean
  refusal(refusal: Refusal, simulation: Simulation): Answer
  /** What a scoring route answers when the engine behind it died; absent: its usual error. */
  deadAnswer?(as: DeadAnswer, path: string, simulation: Simulation): Answer
  /** How it ends when a score is NaN; null: NaN stands in the answer. */
  nanAnswer(): Answer | null
}
