import { uniformOf } from './draw.ts'

export interface Reply {
  tokens: string[]
  /** Seed of the log-probabilities. */
  draw: number
}

/** One token with its log-probability and alternatives, in OpenAI's format. */
export interface TokenLogprob {
  token: string
  logprob: number
  bytes: number[]
  top_logprobs: { token: string; logprob: number; bytes: number[] }[]
}

const FILLER = 'This reply is simulated and follows from the text alone .'.split(' ')
/** Highest rating; the lowest is 1. */
const RATINGS = 10

/** The rating, 1 to 10, that a judge with these weights gives to the text with that id. */
export function ratingOf(id: string, weights: number): number {
  return 1 + Math.floor(uniformOf(Number.parseInt(id.slice(0, 8), 16) | 0, weights, 7) * RATINGS)
}

/** A reply of at least `atLeastTokens` tokens. If `rated`, it ends with a rating such as `Rating: [[7]]`. */
export function ratedReply(
  id: string,
  weights: number,
  atLeastTokens: number,
  rated: boolean,
): Reply {
  const end = rated ? `Rating: [[${ratingOf(id, weights)}]]` : 'There is no rating.'
  const tail = tokensOf(` ${end}`)
  const tokens: string[] = []
  while (tokens.length + tail.length < atLeastTokens || tokens.length === 0) {
    const word = FILLER[tokens.length % FILLER.length] as string
    tokens.push(tokens.length === 0 || word === '.' ? word : ` ${word}`)
  }
  return { tokens: [...tokens, ...tail], draw: Number.parseInt(id.slice(8, 16), 16) | 0 }
}

export function plainReply(id: string, text: string): Reply {
  return { tokens: tokensOf(text), draw: Number.parseInt(id.slice(8, 16), 16) | 0 }
}

/**
 * Splits a text into words, numbers and runs of punctuation, each with the preceding blanks: `[[7]]` has three
 * tokens.
 */
function tokensOf(text: string): string[] {
  return text.match(/\s*(?:[A-Za-z]+|\d+|[^\sA-Za-z\d]+)|\s+$/g) ?? []
}

/**
 * A small value that satisfies a JSON schema. The rating determines numbers and enum members, and anyOf uses its first
 * schema. Supports type, properties, items, enum, const, minimum, maximum and anyOf.
 */
export function jsonOfSchema(schema: unknown, rating: number): unknown {
  if (typeof schema !== 'object' || schema === null) return {}
  const at = schema as Record<string, unknown>
  if (at.const !== undefined) return at.const
  if (Array.isArray(at.enum)) return at.enum[rating % at.enum.length]
  if (Array.isArray(at.anyOf)) return jsonOfSchema(at.anyOf[0], rating)
  switch (Array.isArray(at.type) ? at.type[0] : at.type) {
    case 'integer':
    case 'number': {
      const low = typeof at.minimum === 'number' ? at.minimum : 1
      const high = typeof at.maximum === 'number' ? at.maximum : Math.max(low, RATINGS)
      return Math.min(high, Math.max(low, rating))
    }
    case 'boolean':
      return rating > RATINGS / 2
    case 'array':
      return [jsonOfSchema(at.items, rating)]
    case 'null':
      return null
    case 'string':
      return 'simulated'
    default:
      return Object.fromEntries(
        Object.entries((at.properties ?? {}) as Record<string, unknown>).map(([name, property]) => [
          name,
          jsonOfSchema(property, rating),
        ]),
      )
  }
}

/**
 * Log-probabilities of a reply's tokens. A chosen token has a probability of 0.6 to 0.99; alternatives share the
 * rest.
 */
export function logprobsOf(reply: Reply, top: number): TokenLogprob[] {
  return reply.tokens.map((token, index) => {
    const chance = 0.6 + 0.39 * uniformOf(reply.draw, index, 8)
    const others = alternatives(token, top - 1)
    const rest = others.map((other, i) => entry(other, (1 - chance) / 2 ** (i + 1)))
    const chosen = entry(token, chance)
    return { ...chosen, top_logprobs: top === 0 ? [] : [chosen, ...rest] }
  })
}

function entry(token: string, chance: number) {
  const logprob = Math.round(Math.log(chance) * 1e6) / 1e6
  return { token, logprob, bytes: [...Buffer.from(token)] }
}

function alternatives(token: string, count: number): string[] {
  const number = /^\s*(\d+)$/.exec(token)?.[1]
  return Array.from({ length: Math.max(0, count) }, (_, i) =>
    number === undefined ? ` other${i + 1}` : String(1 + ((Number(number) + i) % RATINGS)),
  )
}
