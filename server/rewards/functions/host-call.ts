import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { ScoreInput } from '../../router/router-types.ts'
import type { RewardSample } from '../managers/manager.ts'
import type {
  FunctionContext,
  FunctionInput,
  FunctionRouter,
  ScoredText,
} from './function-context.ts'
import type { CallAbout, LogLevel, RouterAnswer, RouterQuestion } from './protocol.ts'

/** Thrown in user code when a call to the router fails. If it is not caught, the sample fails with its `reason`. */
export class RouterCallError extends Error {
  readonly reason: SampleFailureReason

  constructor(reason: SampleFailureReason, detail: string) {
    super(`${reason}: ${detail}`)
    this.name = 'RouterCallError'
    this.reason = reason
  }
}

export interface CallHost {
  ask(question: RouterQuestion): Promise<RouterAnswer>
  log(level: LogLevel, message: string, fields: object | undefined): void
}

export function inputOf(sample: RewardSample, kwargs: Record<string, unknown>): FunctionInput {
  const { dataSource, solutionStr, groundTruth, extraInfo, prompt } = sample
  const responseLength = sample.responseLength ?? null
  return {
    ...kwargs,
    dataSource,
    data_source: dataSource,
    solutionStr,
    solution_str: solutionStr,
    groundTruth,
    ground_truth: groundTruth,
    extraInfo,
    extra_info: extraInfo,
    prompt,
    messages: sample.messages ?? null,
    responseLength,
    response_length: responseLength,
  }
}

/**
 * Returns the fields of a group's members as lists, each under its camelCase and its snake_case name (verl's plural
 * kwargs), with the kwargs as further fields.
 */
export function groupInputOf(
  samples: readonly RewardSample[],
  kwargs: Record<string, unknown>,
): Record<string, unknown> {
  const dataSources = samples.map((sample) => sample.dataSource)
  const solutionStrs = samples.map((sample) => sample.solutionStr)
  const groundTruths = samples.map((sample) => sample.groundTruth)
  const extraInfos = samples.map((sample) => sample.extraInfo)
  const responseLengths = samples.map((sample) => sample.responseLength ?? null)
  return {
    ...kwargs,
    dataSources,
    data_sources: dataSources,
    solutionStrs,
    solution_strs: solutionStrs,
    groundTruths,
    ground_truths: groundTruths,
    extraInfos,
    extra_infos: extraInfos,
    prompts: samples.map((sample) => sample.prompt),
    messageLists: samples.map((sample) => sample.messages ?? null),
    responseLengths,
    response_lengths: responseLengths,
  }
}

export function sampleOf(input: FunctionInput): RewardSample {
  const { dataSource, prompt, solutionStr, messages, groundTruth, extraInfo, responseLength } =
    input
  return { dataSource, prompt, solutionStr, messages, groundTruth, extraInfo, responseLength }
}

export function contextOf(about: CallAbout, signal: AbortSignal, host: CallHost): FunctionContext {
  const log =
    (level: LogLevel) =>
    (message: string, fields?: object): void =>
      host.log(level, message, fields)
  return {
    router: routerOf(host),
    rewardRouterAddress: about.rewardRouterAddress,
    reward_router_address: about.rewardRouterAddress,
    signal,
    log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
    sampleId: about.sampleId,
    run: about.run,
  }
}

function routerOf({ ask }: CallHost): FunctionRouter {
  const score: FunctionRouter['score'] = async (input, { model, ...options }) => {
    const answer = await ask({ op: 'score', model, input: scoreInput(input), options })
    if (!answer.ok) throw new RouterCallError(answer.reason, answer.detail)
    return 'score' in answer ? answer.score : Number.NaN
  }
  const classify = (async (
    input: ScoredText | ScoredText[],
    options: Parameters<FunctionRouter['score']>[1],
  ) =>
    Array.isArray(input)
      ? Promise.all(input.map((one) => score(one, options)))
      : score(input, options)) as FunctionRouter['classify']
  return {
    score,
    classify,
    async chat({ model, timeoutMs, maxAttempts, ...chat }) {
      const options = {
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
        ...(maxAttempts === undefined ? {} : { maxAttempts }),
      }
      const answer = await ask({ op: 'chat', model, chat, options })
      if (!answer.ok) throw new RouterCallError(answer.reason, answer.detail)
      if (!('reply' in answer)) throw new Error('the router returned a score for a conversation')
      return answer.reply
    },
    async chatTemplate(model) {
      const answer = await ask({ op: 'template', model })
      if (!answer.ok) throw new RouterCallError(answer.reason, answer.detail)
      if (!('template' in answer)) throw new Error('the router returned no template')
      // Loaded on first use, because loading the template library takes about 130 ms.
      const { chatTemplateOf } = await import('../../router/chat-template.ts')
      return chatTemplateOf(answer.template)
    },
  }
}

/** A plain text is scored as a response to an empty prompt. */
function scoreInput(input: ScoredText): ScoreInput {
  return typeof input === 'string' ? { prompt: '', response: input } : input
}
