import type { ChatReply } from '../../router/router-types.ts'
import type { JudgeParser } from './parser-spec.ts'
import { readJson } from './read-json.ts'
import { readBoxed, readBracketed, readNumber, readVerdict } from './read-text.ts'
import type { Verdict } from './verdict.ts'

/** What is read of a reply. */
export type ReplyText = Pick<ChatReply, 'content' | 'logprobs'>

/**
 * Reads a judge's reply: one score, or why there is none. Never throws and never answers with a default. What a model
 * thought before its reply (`<think>…</think>`, where the server leaves it in) is no part of it.
 */
export function readReply(reply: ReplyText, parser: JudgeParser): Verdict {
  if (parser.kind === 'yes_no') return readYesNo(reply, parser)
  const text = withoutThinking(reply.content)
  if (text === null) return { ok: false, problem: 'the reply ends while it is still thinking' }
  switch (parser.kind) {
    case 'number':
      return readNumber(text, parser)
    case 'bracketed':
      return readBracketed(text, parser)
    case 'boxed':
      return readBoxed(text, parser)
    case 'json':
      return readJson(text, parser)
    case 'verdict':
      return readVerdict(text, parser)
  }
}

/** Templates that begin with `<think>` leave only the closing tag in the reply. */
function withoutThinking(content: string): string | null {
  const closing = '</think>'
  const at = content.lastIndexOf(closing)
  if (at >= 0) return content.slice(at + closing.length)
  return content.trimStart().startsWith('<think>') ? null : content
}

/**
 * P(yes) / (P(yes) + P(no)) where the model chose its word: the probabilities of a word's tokens (` Yes`, `yes`, `YES` …)
 * are added up. Where both together have less than `minMass`, the model meant to say something else.
 */
function readYesNo(
  { logprobs }: ReplyText,
  parser: Extract<JudgeParser, { kind: 'yes_no' }>,
): Verdict {
  if (logprobs === null) return { ok: false, problem: 'the reply has no log-probabilities' }
  const side = (token: string) => {
    const word = wordOf(token)
    if (parser.yes.some((yes) => wordOf(yes) === word)) return 'yes'
    return parser.no.some((no) => wordOf(no) === word) ? 'no' : null
  }
  const position =
    parser.at === 'first'
      ? logprobs.find(({ token }) => wordOf(token) !== '')
      : logprobs.findLast(({ token }) => side(token) !== null)
  if (position === undefined) return { ok: false, problem: 'no token of the reply is yes or no' }
  // The chosen token is usually among the alternatives as well.
  const alternatives = new Map(position.top.map(({ token, logprob }) => [token, logprob]))
  if (!alternatives.has(position.token)) alternatives.set(position.token, position.logprob)
  const mass = { yes: 0, no: 0 }
  for (const [token, logprob] of alternatives) {
    const of = side(token)
    if (of !== null) mass[of] += Math.exp(Math.min(0, logprob))
  }
  const both = mass.yes + mass.no
  if (!(both > 0) || both < parser.minMass) {
    const percent = (both * 100).toPrecision(2)
    return { ok: false, problem: `yes and no together have ${percent} % of the probability` }
  }
  return { ok: true, value: mass.yes / both, found: position.token }
}

/** A token as a word: without the marks that tokenizers write a space as. */
function wordOf(token: string): string {
  return token.replace(/^[\s\u2581\u0120\u010a]+|[\s\u2581]+$/g, '').toLowerCase()
}
