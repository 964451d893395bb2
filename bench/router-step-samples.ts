import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { drawFrom } from '../examples/generator/random.ts'
import { countTokens } from '../testkit/simulated-rm/text.ts'
import { randomTexts } from './texts.ts'

/** Characters per token, here and in the simulated servers. */
export const CHARS_PER_TOKEN = 3.6

export interface StepSample {
  index: number
  group: number
  prompt: string
  response: string
  /** Tokens as the servers count them. */
  promptTokens: number
  tokens: number
}

export interface Step {
  samples: StepSample[]
  groups: number
  /** Minimum work: each group's prompt once, and every response. */
  workTokens: number
  /**
   * Largest number of tokens that one server must process in sequence: those of one response, or of a group's prompt
   * and shortest response.
   */
  longestTokens: number
  lengths: 'trace' | 'lognormal'
}

const TRACE = fileURLToPath(
  new URL('../../shared/data/traces/azure_llm_2023_conv.csv', import.meta.url),
)
/**
 * Median prompt and response lengths in tokens, and their spread. Used if the file of real conversations is missing.
 */
const FALLBACK = { prompt: 545, response: 735, sigma: 0.8 }

/**
 * Creates a step of `groups` groups, whose samples share a prompt. Lengths are drawn from a trace of real conversations
 * (context for prompts, generated tokens for responses) and cut to the model's context. Texts are random words.
 */
export function makeStep(options: {
  groups: number
  samplesPerGroup: number
  modelTokens: number
  seed: number
}): Step {
  const draw = drawFrom(options.seed)
  const trace = readTrace()
  const lognormal = (median: number) => {
    const radius = Math.sqrt(-2 * Math.log(1 - draw.unit()))
    return Math.round(
      median * Math.exp(FALLBACK.sigma * radius * Math.cos(2 * Math.PI * draw.unit())),
    )
  }
  const pick = (from: number[], median: number) =>
    from.length > 0 ? (from[draw.integer(0, from.length - 1)] as number) : lognormal(median)
  const text = randomTexts(options.seed)
  const textOf = (tokens: number) => text(Math.max(8, Math.floor(tokens * CHARS_PER_TOKEN) - 2))

  const samples: StepSample[] = []
  let workTokens = 0
  let longestTokens = 0
  for (let group = 0; group < options.groups; group++) {
    const drawn = Array.from({ length: options.samplesPerGroup }, () =>
      Math.min(pick(trace.generated, FALLBACK.response), options.modelTokens >> 1),
    )
    const room = options.modelTokens - Math.max(...drawn)
    const prompt = textOf(Math.min(pick(trace.context, FALLBACK.prompt), room))
    const promptTokens = countTokens(prompt, CHARS_PER_TOKEN)
    const rests = drawn.map((wanted) => {
      const response = textOf(wanted)
      const tokens = countTokens(`${prompt} ${response}`, CHARS_PER_TOKEN)
      samples.push({ index: samples.length, group, prompt, response, promptTokens, tokens })
      return tokens - promptTokens
    })
    workTokens += promptTokens + rests.reduce((sum, rest) => sum + rest, 0)
    // One sample of the group also processes the prompt. In the best case, this is the sample with the shortest
    // response.
    longestTokens = Math.max(longestTokens, promptTokens + Math.min(...rests), ...rests)
  }
  const lengths = trace.context.length > 0 ? 'trace' : 'lognormal'
  return { samples, groups: options.groups, workTokens, longestTokens, lengths }
}

function readTrace(): { context: number[]; generated: number[] } {
  const context: number[] = []
  const generated: number[] = []
  if (!existsSync(TRACE)) {
    console.error(`bench: ${TRACE} is missing, so lengths are lognormal`)
    return { context, generated }
  }
  for (const line of readFileSync(TRACE, 'utf8').split('\n').slice(1)) {
    const [, prompt, response] = line.split(',').map(Number)
    if (!(prompt && response)) continue
    context.push(prompt)
    generated.push(response)
  }
  return { context, generated }
}
