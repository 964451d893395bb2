import type { SampleInput, ScoreResult } from '../../contract/trainer.ts'
import type { CompatOptions } from './compat-options.ts'

/** A rollout as a dialect's request has it. */
export interface DialectSample
  extends Pick<SampleInput, 'prompt' | 'response' | 'groundTruth' | 'extraInfo' | 'index'> {
  /** The prompt's id where the protocol has one; null: rollouts of one prompt are a group. */
  uid: string | null
  /** Where the protocol says it; null: the address does. */
  dataSource: string | null
}

/** How one of them ended, as the protocol is told: with a number, the failure's reason beside it where it is none. */
export interface DialectEnd {
  result: ScoreResult
  /** The score, or what the address puts in a failed one's place. */
  reward: number
  failed: boolean
}

/** JSON as it is, or made of what was sent. Throws `invalid_input` naming the field. */
export type DialectAnswer = string | object | ((body: unknown) => unknown)

/**
 * A trainer's way to ask a remote reward server, answered on `/compat/<name>/<run>`. One file each; what they have in
 * common (access, steps, groups, failures) is in compat.ts.
 */
export interface Dialect {
  readonly name: string
  /** Below the run's address: what is asked to score. */
  readonly scorePath: '' | `/${string}`
  /** Whether an answer can say that a sample was not scored. Where not, a failure is answered by 503 or a value of the user's. */
  readonly carriesFailure: boolean
  /** Answers to what the peer asks besides, by method and path below the run's address; a function is given the body. */
  readonly others: Readonly<Record<string, DialectAnswer>>
  /** Throws `invalid_input` naming the field. */
  read(body: unknown, options: CompatOptions): DialectSample[]
  /** The answer's JSON; `ends` in order of the samples read. */
  answer(body: unknown, ends: readonly DialectEnd[], options: CompatOptions): unknown
}
