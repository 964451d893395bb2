import type { EngineScore } from '../server/engines/engine.ts'
import type { StepRow } from './router-step-rows.ts'

/** A server of the step. */
export interface StepServer {
  id: number
  url: string
  model: string
}

/** What a dispatcher is given. */
export interface StepRun {
  servers: readonly StepServer[]
  rows: readonly StepRow[]
  /** Called once a row, when it ended for good: its score, or null where there is none. */
  ended(row: StepRow, score: EngineScore['score'] | null): void
  /** What is not done by then is given up. */
  signal: AbortSignal
}

/** A way to get a step's rows scored. All rows are there at once. */
export interface Dispatcher {
  readonly name: string
  /** Resolves when every row ended, or soon after the signal, its connections closed. */
  run(step: StepRun): Promise<void>
}
