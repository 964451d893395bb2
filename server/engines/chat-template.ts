import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'
import { MAX_CHAT_TEMPLATE_CHARS } from '../contract/servers.ts'
import type { SampleTemplate, ScoreInput } from './engine.ts'
import { type ChatMessage, sampleMessages } from './sample-text.ts'

const MAX_COMPILED = 32
/** Names of the special tokens that transformers and other model libraries pass to a template. */
const TOKEN = /\b(?:bos|eos|unk|sep|pad|cls|mask)_token\b/g

/** An unusable template, or a conversation that the template rejects. */
export class ChatTemplateError extends Error {
  override name = 'ChatTemplateError'
}

export interface RenderOptions {
  /**
   * Whether to end the text with the start of an assistant's turn. Default: false, for conversations that are scored.
   */
  addGenerationPrompt?: boolean
  /** Further variables, like the `chat_template_kwargs` of a trainer. */
  variables?: Record<string, unknown>
  /** The clock of `strftime_now`. Default: the system clock. */
  now?: () => Date
}

interface Source {
  template: string
  tokens: Record<string, string>
  inputEosToken: string | null
}

/** A compiled chat template. It is immutable, because compiled templates are cached. */
export class ChatTemplate implements SampleTemplate {
  readonly #program: Program
  readonly #source: Source

  /** @throws ChatTemplateError if the template is invalid, or needs a special token that is not given */
  constructor(text: string) {
    this.#source = readSource(text)
    const { template, tokens } = this.#source
    const missing = [...new Set(template.match(TOKEN))].filter((name) => tokens[name] === undefined)
    if (missing.length > 0) {
      throw new ChatTemplateError(
        `it uses ${missing.join(' and ')} without a value: paste the whole tokenizer_config.json, or {"chat_template": "…", "${missing[0]}": "…"}`,
      )
    }
    try {
      this.#program = readProgram(template)
    } catch (error) {
      throw new ChatTemplateError(`it cannot be read: ${(error as Error).message}`)
    }
  }

  get bosToken(): string {
    return this.#source.tokens.bos_token ?? ''
  }

  /** Renders a conversation. @throws ChatTemplateError with the template's message */
  render(messages: readonly ChatMessage[], options: RenderOptions = {}): string {
    const variables = {
      ...this.#source.tokens,
      // `tools` and `documents` are null (None in Jinja) and not undefined, because some templates test them without
      // `is defined`.
      tools: null,
      documents: null,
      ...options.variables,
      messages,
      add_generation_prompt: options.addGenerationPrompt ?? false,
    }
    try {
      return runProgram(this.#program, variables, options.now ?? (() => new Date()))
    } catch (error) {
      throw new ChatTemplateError((error as Error).message)
    }
  }

  /**
   * Renders prompt and response, with the response as the assistant's turn. End-of-text tokens are removed from the
   * response, as verl's `_preprocess_reward_inputs` does.
   * @throws ChatTemplateError
   */
  renderSample(input: ScoreInput): string {
    const { tokens, inputEosToken } = this.#source
    let { response } = input
    for (const eos of [tokens.eos_token, inputEosToken]) {
      if (eos) response = response.replaceAll(eos, '')
    }
    return this.render(sampleMessages({ ...input, response }))
  }

  /** Renders a sample without its leading BOS, for servers whose tokenizer adds it. @throws ChatTemplateError */
  renderSampleWithoutBos(input: ScoreInput): string {
    const text = this.renderSample(input)
    const { bosToken } = this
    return bosToken !== '' && text.startsWith(bosToken) ? text.slice(bosToken.length) : text
  }

  /** The template and its special tokens as JSON, without the other fields of a tokenizer_config.json. */
  get normalized(): string {
    const { template, tokens, inputEosToken } = this.#source
    const input = inputEosToken === null ? {} : { input_eos_token: inputEosToken }
    return JSON.stringify({ chat_template: template, ...tokens, ...input })
  }
}

const compiled = new Map<string, ChatTemplate>()

/** @throws ChatTemplateError */
export function chatTemplateOf(text: string): ChatTemplate {
  const known = compiled.get(text)
  const template = known ?? new ChatTemplate(text)
  // Moves the template to the end, so that the first entry is the least recently used.
  compiled.delete(text)
  compiled.set(text, template)
  if (compiled.size > MAX_COMPILED) compiled.delete(compiled.keys().next().value as string)
  return template
}

function readSource(text: string): Source {
  if (text.length > MAX_CHAT_TEMPLATE_CHARS) {
    throw new ChatTemplateError(
      `it has ${text.length} characters; at most ${MAX_CHAT_TEMPLATE_CHARS} are allowed`,
    )
  }
  const config = jsonObject(text)
  if (config === null) {
    if (text.trim() === '') throw new ChatTemplateError('it is empty')
    return { template: text, tokens: {}, inputEosToken: null }
  }
  const tokens: Record<string, string> = {}
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith('_token') || key === 'input_eos_token') continue
    // Null means that the model has no such token. A template may test for that.
    const token = value === null ? '' : tokenText(value)
    if (token !== null) tokens[key] = token
  }
  return {
    template: templateIn(config.chat_template),
    tokens,
    inputEosToken: tokenText(config.input_eos_token),
  }
}

function jsonObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}

/** Returns the template for conversations. Models with several named templates call it `default`. */
function templateIn(value: unknown): string {
  const named = Array.isArray(value) ? value.find((entry) => entry?.name === 'default') : undefined
  const template = named === undefined ? value : named.template
  if (typeof template === 'string' && template.trim() !== '') return template
  throw new ChatTemplateError(
    Array.isArray(value)
      ? 'its chat_template has several templates, and none is named "default"'
      : 'it has no chat_template: newer models keep it in chat_template.jinja, so give {"chat_template": "…", "bos_token": "…", "eos_token": "…"}',
  )
}

/** A special token is a string, or an object with `content`. Returns null for any other value. */
function tokenText(value: unknown): string | null {
  const text =
    typeof value === 'object' && value !== null ? (value as { content?: unknown }).content : value
  return typeof text === 'string' ? text : null
}

/**
 * Maximum number of steps per rendering. A conversation of 1,000 turns takes about 50,000 steps; 500,000 steps take one
 * or two seconds.
 */
const MAX_STEPS = 500_000
const MAX_CHARS = 64 * 2 ** 20
const MAX_ELEMENTS = 1_000_000
/** Maximum length of a `range()`. Templates need no more, because they loop over turns, not over characters. */
const MAX_RANGE = 100_000

export type Program = Parameters<Interpreter['run']>[0]

/**
 * Parses a template with the settings of the model libraries: `trim_blocks` and `lstrip_blocks` are on, and `{%
 * generation %}` is ignored.
 * @throws Error
 */
export function readProgram(source: string): Program {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }))
}

/**
 * Renders a template with the given variables and those that the model libraries add: `raise_exception`,
 * `strftime_now`, `range`, `namespace`.
 * @throws Error with the message that the template raised, or because a limit was exceeded
 */
export function runProgram(
  program: Program,
  variables: Record<string, unknown>,
  now: () => Date,
): string {
  const environment = new Environment()
  const globals: Record<string, unknown> = {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    raise_exception: (message: unknown) => {
      throw new Error(String(message))
    },
    strftime_now: (format: unknown) => formatTime(now(), String(format)),
    range,
  }
  for (const [name, value] of Object.entries({ ...globals, ...variables })) {
    environment.set(name, value)
  }
  return String(new BoundedInterpreter(environment).run(program).value)
}

/** An interpreter with limits, so that no template can block a worker's event loop or fill its memory. */
class BoundedInterpreter extends Interpreter {
  #steps = 0

  override evaluate(
    ...step: Parameters<Interpreter['evaluate']>
  ): ReturnType<Interpreter['evaluate']> {
    if (++this.#steps > MAX_STEPS) throw new Error('the template takes too long')
    const result = super.evaluate(...step)
    const made: unknown = result.value
    if (typeof made === 'string' ? made.length > MAX_CHARS : tooLongList(made)) {
      throw new Error('the template produces a text or list that is too long')
    }
    return result
  }
}

function tooLongList(made: unknown): boolean {
  return Array.isArray(made) && made.length > MAX_ELEMENTS
}

/** Python's `range`, with a limit, because a template could create a list of any length in one step. */
function range(first: number, stop?: number, step = 1): number[] {
  const [from, to] = typeof stop === 'number' ? [first, stop] : [0, first]
  if (step === 0) throw new Error('range() step must not be zero')
  const count = Math.max(0, Math.ceil((to - from) / step))
  if (!(count <= MAX_RANGE)) throw new Error(`range() of more than ${MAX_RANGE} numbers`)
  return Array.from({ length: count }, (_, i) => from + i * step)
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
]

const two = (n: number) => String(n).padStart(2, '0')

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  Y: (d) => String(d.getFullYear()),
  y: (d) => two(d.getFullYear() % 100),
  m: (d) => two(d.getMonth() + 1),
  B: (d) => MONTHS[d.getMonth()] as string,
  b: (d) => (MONTHS[d.getMonth()] as string).slice(0, 3),
  d: (d) => two(d.getDate()),
  e: (d) => String(d.getDate()).padStart(2, ' '),
  A: (d) => DAYS[d.getDay()] as string,
  a: (d) => (DAYS[d.getDay()] as string).slice(0, 3),
  H: (d) => two(d.getHours()),
  I: (d) => two(d.getHours() % 12 || 12),
  M: (d) => two(d.getMinutes()),
  S: (d) => two(d.getSeconds()),
  p: (d) => (d.getHours() < 12 ? 'AM' : 'PM'),
  F: (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`,
  T: (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
  '%': () => '%',
}

/**
 * Formats a time like Python's `strftime`, always in English, for `strftime_now` of templates.
 * @throws Error for an unknown directive, because otherwise it would become part of a prompt
 */
export function formatTime(date: Date, format: string): string {
  return format.replace(/%([-#]?)(.?)/gs, (_, unpadded: string, letter: string) => {
    const directive = DIRECTIVES[letter]
    if (directive === undefined)
      throw new Error(`strftime_now does not support %${unpadded}${letter}`)
    const text = directive(date)
    return unpadded === '' ? text : text.replace(/^[0 ]+(?=\d)/, '')
  })
}
