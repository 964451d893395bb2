import type { ChatTurn } from '../../contract/turn-text.ts'
import type { ChatReply, ChatRequest, ScoreInput } from '../../router/router-types.ts'
import type { RouterCallOptions } from './protocol.ts'

/**
 * Input of a reward function: `computeScore(input, context)`. Every field also has verl's name, so that functions
 * written for verl's keyword arguments run unchanged. The batch's kwargs are additional fields.
 */
export interface FunctionInput {
  dataSource: string
  data_source: string
  /** The response as text; for a trajectory, the text of all its messages. */
  solutionStr: string
  solution_str: string
  groundTruth: unknown
  ground_truth: unknown
  /** Extra info of this sample; a copy that the function may change. */
  extraInfo: Record<string, unknown>
  extra_info: Record<string, unknown>
  /** The prompt as text or as chat messages. */
  prompt: string | ChatTurn[]
  /** The response's messages as sent, with `""` for a missing or null `content`; null if plain text was sent. */
  messages: ChatTurn[] | null
  /** Length of the response in tokens; null if the trainer did not send it. */
  responseLength: number | null
  response_length: number | null
  /** The batch's kwargs. */
  [kwarg: string]: unknown
}

/** Input of a reward model: a prompt with its response, or a plain text. */
export type ScoredText = string | ScoreInput

/** A model's chat template. Both methods throw an Error with the template's message if it rejects the conversation. */
export interface FunctionChatTemplate {
  /** The model's beginning-of-sequence token; `''` if it has none or it is unknown. */
  readonly bosToken: string
  /**
   * Renders a conversation as the model reads it. `addGenerationPrompt` appends the start of the assistant's turn;
   * default false.
   */
  render(
    messages: readonly { role: string; content: string }[],
    options?: { addGenerationPrompt?: boolean; variables?: Record<string, unknown> },
  ): string
  /**
   * Renders prompt and response as reward models receive them: the response is the assistant's turn without
   * end-of-text tokens.
   */
  renderSample(input: ScoreInput): string
}

/**
 * The reward router, as functions call it. A failed call throws an Error whose `reason` is one of the failure reasons
 * of samples.
 */
export interface FunctionRouter {
  /** Returns the score of a discriminative model. */
  score(input: ScoredText, options: { model: string } & RouterCallOptions): Promise<number>
  /** Returns the score of one input, or the scores of a list of inputs, which are scored concurrently. */
  classify(input: ScoredText, options: { model: string } & RouterCallOptions): Promise<number>
  classify(inputs: ScoredText[], options: { model: string } & RouterCallOptions): Promise<number[]>
  /** Returns a generative model's reply. */
  chat(request: ChatRequest & { model: string } & RouterCallOptions): Promise<ChatReply>
  /** Returns the chat template that the model was registered with. */
  chatTemplate(model: string): Promise<FunctionChatTemplate>
}

/** Writes to the service's log, with the sample's id. */
export interface FunctionLog {
  debug(message: string, fields?: object): void
  info(message: string, fields?: object): void
  warn(message: string, fields?: object): void
  error(message: string, fields?: object): void
}

/** Second argument of a reward function. */
export interface FunctionContext {
  router: FunctionRouter
  /**
   * `host:port` of the router address, for code that calls a reward model itself; null if this worker does not know
   * it.
   */
  rewardRouterAddress: string | null
  reward_router_address: string | null
  /** Aborted when the result is no longer needed: the timeout has passed, or the batch has ended. */
  signal: AbortSignal
  log: FunctionLog
  /** The sample's id, such as `b12-3`. */
  sampleId: string
  run: string
}

/** Constructor arguments of a manager class. */
export interface ManagerOptions {
  kwargs: Record<string, unknown>
  /** Scores a sample by the batch's function, model or rule. */
  computeScore: (input: FunctionInput, context?: FunctionContext) => Promise<unknown>
}
