import type { EngineScore } from '../server/engines/engine.ts'
import type { StepSample } from './router-step-samples.ts'

export interface StepServer {
  id: number
  url: string
  model: string
}

export interface StepRun {
  servers: readonly StepServer[]
  samples: readonly StepSample[]
  /** Called once per sample with its score, or with null if the sample failed. */
  ended(sample: StepSample, score: EngineScore['score'] | null): void
  /** When the signal aborts, samples without a result are abandoned. */
  signal: AbortSignal
}

/** A strategy for scoring a step's samples. All samples are available at the start. */
export interface Dispatcher {
  readonly name: string
  /** Resolves when every sample has a result, or soon after `signal` aborts. By then, all connections are closed. */
  run(step: StepRun): Promise<void>
}
