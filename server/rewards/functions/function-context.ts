import type { ChatReply, ChatRequest, ScoreInput } from '../../router/router-types.ts'
import type { RouterCallOptions } from './protocol.ts'

/**
 * What a reward function is called with: `computeScore(input, context)`. Every field has upstream's name too, so that a
 * function written for its keyword arguments is carried over as it is; the kwargs of the batch stand beside them.
 */
export interface FunctionInput {
  dataSource: string
  data_source: string
  /** The response, as the trainer sent it. */
  solutionStr: string
  solution_str: string
  groundTruth: unknown
  ground_truth: unknown
  /** The sample's own copy. */
  extraInfo: Record<string, unknown>
  extra_info: Record<string, unknown>
  /** Text, or chat messages. */
  prompt: string | { role: string; content: string }[]
  /** In tokens; null where the trainer did not tell. */
  responseLength: number | null
  response_length: number | null
  /** The batch's kwargs. */
  [kwarg: string]: unknown
}

/** What is scored by a reward model: a prompt with its response, or a text as it is. */
export type ScoredText = string | ScoreInput

/** A model's chat template. Both throw an Error with what the template says of a conversation that it does not take. */
export interface FunctionChatTemplate {
  /** `''` where the model has none, or it is not known. */
  readonly bosToken: string
  /** A conversation as the model reads it. `addGenerationPrompt`: end with what begins the assistant's turn; default false. */
  render(
    messages: readonly { role: string; content: string }[],
    options?: { addGenerationPrompt?: boolean; variables?: Record<string, unknown> },
  ): string
  /** Prompt and response, the response as the assistant's turn without end-of-text tokens: what a reward model is sent. */
  renderSample(input: ScoreInput): string
}

/** The reward router, as a function sees it. A call that fails throws an Error with the `reason` a sample would have. */
export interface FunctionRouter {
  /** The score that a discriminative model gives. */
  score(input: ScoredText, options: { model: string } & RouterCallOptions): Promise<number>
  /** The same for one or many, side by side. */
  classify(input: ScoredText, options: { model: string } & RouterCallOptions): Promise<number>
  classify(inputs: ScoredText[], options: { model: string } & RouterCallOptions): Promise<number[]>
  /** A generative model's reply. */
  chat(request: ChatRequest & { model: string } & RouterCallOptions): Promise<ChatReply>
  /** The chat template that the model was registered with. */
  chatTemplate(model: string): Promise<FunctionChatTemplate>
}

/** Writes into the service's log, with the sample's id. */
export interface FunctionLog {
  debug(message: string, fields?: object): void
  info(message: string, fields?: object): void
  warn(message: string, fields?: object): void
  error(message: string, fields?: object): void
}

/** What a call has beside its sample. */
export interface FunctionContext {
  router: FunctionRouter
  /** `host:port` of the router address, for code that speaks to a reward model itself; null: this worker does not know it. */
  rewardRouterAddress: string | null
  reward_router_address: string | null
  /** Aborted when nobody waits any more: the time is up, or the batch has ended. */
  signal: AbortSignal
  log: FunctionLog
  /** As `b12-3`. */
  sampleId: string
  run: string
}

/** What a manager class is constructed with. */
export interface ManagerOptions {
  kwargs: Record<string, unknown>
  /** Scores a sample by whatever else the batch names: its function, model or rule. */
  computeScore: (input: FunctionInput, context?: FunctionContext) => Promise<unknown>
}
