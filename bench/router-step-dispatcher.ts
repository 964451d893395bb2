import type { EngineScore } from '../server/engines/engine.ts'
import type { StepRow } from './router-step-rows.ts'

/** A server of the step. */
export interface StepServer {
  id: number
  url: string
  model: string
}

/** Inputs of a dispatcher. */
export interface StepRun {
  servers: readonly StepServer[]
  rows: readonly StepRow[]
  /** Called once per row at its final end with its score, or null without one. */
  ended(row: StepRow, score: EngineScore['score'] | null): void
  /** Rows not done by then are abandoned. */
  signal: AbortSignal
}

/** A strategy to get a step's rows scored. All rows are available at the start. */
export interface Dispatcher {
  readonly name: string
  /** Resolves when every row has ended, or soon after the signal with its connections closed. */
  run(step: StepRun): Promise<void>
}
