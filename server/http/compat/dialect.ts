import type { SampleInput, ScoreResult } from '../../contract/trainer.ts'
import type { CompatOptions } from './compat-options.ts'

/** A sample read from a dialect's request. */
export interface DialectSample
  extends Pick<SampleInput, 'prompt' | 'response' | 'groundTruth' | 'extraInfo' | 'index'> {
  /** The prompt's id in the protocol; null: it has none, and samples with equal prompts form a group. */
  uid: string | null
  /** The data source in the request; null: the address names it. */
  dataSource: string | null
}

/** The result of a sample as the protocol reports it: a number, with the failure if there was one. */
export interface DialectEnd {
  result: ScoreResult
  /** The score, or the value that the address sets for failed samples. */
  reward: number
  failed: boolean
}

/** An answer: constant JSON, or a function of the request's body, which throws `invalid_input` naming the field. */
export type DialectAnswer = string | object | ((body: unknown) => unknown)

/**
 * A trainer's protocol for remote reward servers, answered on `/compat/<name>/<run>`. Each has its own file; compat.ts
 * holds the common part: access, steps, groups and failures.
 */
export interface Dialect {
  readonly name: string
  /** The path below the run's address that scores. */
  readonly scorePath: '' | `/${string}`
  /** True when an answer can report a failed sample. Otherwise a failure is answered with 503 or with the address's value. */
  readonly carriesFailure: boolean
  /** Answers to the trainer's other requests, by method and path below the run's address. */
  readonly others: Readonly<Record<string, DialectAnswer>>
  /** Reads the samples of a request. @throws RewardOpsError `invalid_input` naming the field */
  read(body: unknown, options: CompatOptions): DialectSample[]
  /** The answer's JSON; `ends` are in the order of the samples. */
  answer(body: unknown, ends: readonly DialectEnd[], options: CompatOptions): unknown
}
