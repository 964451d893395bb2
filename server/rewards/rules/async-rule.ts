import type { z } from 'zod'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import { optionsParser, type RuleDescription, type RuleInput, type RuleResult } from './rule.ts'

export interface RuleService {
  /** URL of the service, without a path. */
  url: string
  fetch: typeof fetch
  /** Number of requests that the local sandbox handles concurrently; absent for any other service. */
  slots?: number
}

export interface AsyncRuleContext {
  /** Aborts the rule's calls; the rule then rejects with the signal's reason. */
  signal?: AbortSignal
  service: RuleService
  /** For tests: waits `ms` before a retry. Rejects when the signal aborts. */
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
}

/** A built-in scorer that calls a service: like `Rule`, but asynchronous, so it never runs in the synchronous path. */
export interface AsyncRule extends RuleDescription {
  /** @throws RuleInputError as `Rule.score` does; RuleServiceError if the service returned no verdict */
  score(input: RuleInput, context: AsyncRuleContext): Promise<RuleResult>
}

/** Thrown if the rule's service returned no verdict; the sample fails with `reason`. */
export class RuleServiceError extends Error {
  override readonly name = 'RuleServiceError'
  readonly reason: SampleFailureReason

  constructor(reason: SampleFailureReason, message: string) {
    super(message)
    this.reason = reason
  }
}

export function defineAsyncRule<Options extends z.ZodObject>(
  definition: RuleDescription<Options> & {
    score(
      input: RuleInput,
      options: z.output<Options>,
      context: AsyncRuleContext,
    ): Promise<RuleResult>
  },
): AsyncRule {
  const { score } = definition
  const optionsOf = optionsParser(definition)
  return {
    ...definition,
    score: async (input, context) => score(input, optionsOf(input.kwargs), context),
  }
}
