import type { SampleInput, ScoreResult } from '../../contract/trainer.ts'
import type { CompatOptions } from './compat-options.ts'

export interface DialectSample
  extends Pick<SampleInput, 'prompt' | 'response' | 'groundTruth' | 'extraInfo' | 'index'> {
  /** The prompt's id. Null if the protocol has none; samples with equal prompts then form a group. */
  uid: string | null
  /** The data source in the request; if null, the data source in the URL is used. */
  dataSource: string | null
}

export interface DialectEnd {
  result: ScoreResult
  /** The score, or the value that the URL sets for failed samples. */
  reward: number
  failed: boolean
}

/** An answer: constant JSON, or a function of the request's body that throws `invalid_input` for an invalid body. */
export type DialectAnswer = string | object | ((body: unknown) => unknown)

/**
 * A trainer's protocol for remote reward servers, answered on `/compat/<name>/<run>`. Each dialect has its own file;
 * compat.ts handles access, steps, groups and failures for all dialects.
 */
export interface Dialect {
  readonly name: string
  /** The path below the run's URL that scores samples. */
  readonly scorePath: '' | `/${string}`
  /**
   * True when an answer can report a failed sample. Otherwise a failed sample gets the score that the URL sets for
   * failures, or the whole request gets 503.
   */
  readonly carriesFailure: boolean
  /** Answers to the trainer's other requests, by method and path below the run's URL. */
  readonly others: Readonly<Record<string, DialectAnswer>>
  /** Reads the samples of a request. @throws RewardOpsError `invalid_input` naming the field */
  read(body: unknown, options: CompatOptions): DialectSample[]
  /** Returns the JSON of the answer. `ends` has the result of each sample, in the order of the samples. */
  answer(body: unknown, ends: readonly DialectEnd[], options: CompatOptions): unknown
}
