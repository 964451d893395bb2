import type { ChatReply } from '../../router/router-types.ts'
import type { JudgeParser } from './parser-spec.ts'
import { readJson } from './read-json.ts'
import { readBoxed, readBracketed, readNumber, readVerdict } from './read-text.ts'
import type { Verdict } from './verdict.ts'

/** The parts of a reply that are read. */
export type ReplyText = Pick<ChatReply, 'content' | 'logprobs'> & {
  /** Whether the reply was cut off at the token limit. Default false. */
  truncated?: boolean
}

/**
 * Reads a judge's reply: one score, or the reason why there is none. Never throws and never returns a default. A
 * model's thoughts before its reply (`<think>…</think>`, where the server leaves them in) are ignored. In a truncated
 * reply only a verdict that more text could not change counts.
 */
export function readReply(reply: ReplyText, parser: JudgeParser): Verdict {
  if (parser.kind === 'yes_no') return readYesNo(reply, parser)
  const text = withoutThinking(reply.content)
  if (text === null) return { ok: false, problem: 'the reply ends while it is still thinking' }
  if (reply.content !== '' && reply.content.trim() === '') {
    return { ok: false, problem: 'the reply is only blanks' }
  }
  if (reply.truncated === true && parser.kind === 'number') return readCutNumber(text, parser)
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

/**
 * A number in a truncated reply. Its last word may be incomplete (`1` of `10`), and its last line need not be the
 * reply's, so without a label no number counts there.
 */
function readCutNumber(text: string, parser: Extract<JudgeParser, { kind: 'number' }>): Verdict {
  if (parser.where === 'last_line' && parser.label === undefined) {
    return { ok: false, problem: 'the last line of the reply is not there' }
  }
  return readNumber(text.replace(/\S+$/, ''), parser)
}

/** Templates that begin with `<think>` leave only the closing tag in the reply. */
function withoutThinking(content: string): string | null {
  const closing = '</think>'
  const at = content.lastIndexOf(closing)
  if (at >= 0) return content.slice(at + closing.length)
  return content.trimStart().startsWith('<think>') ? null : content
}

/**
 * P(yes) / (P(yes) + P(no)) where the model chose its word; probabilities of a word's tokens (` Yes`, `yes`, `YES` …)
 * are added up. If both together have less than `minMass`, the model's answer is neither.
 */
function readYesNo(
  { logprobs, truncated = false }: ReplyText,
  parser: Extract<JudgeParser, { kind: 'yes_no' }>,
): Verdict {
  if (truncated && parser.at === 'last') {
    return { ok: false, problem: 'the last yes or no of the reply may be missing' }
  }
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

/** A token as a word, without the marks that tokenizers write for a space. */
function wordOf(token: string): string {
  return token.replace(/^[\s\u2581\u0120\u010a]+|[\s\u2581]+$/g, '').toLowerCase()
}
