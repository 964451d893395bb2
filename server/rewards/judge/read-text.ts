import { numberAtStartOf, numberOf, numbersIn, withinRange } from './number-text.ts'
import type { JudgeParser } from './parser-spec.ts'
import { type Finding, oneVerdict, type Verdict } from './verdict.ts'

type Spec<Kind extends JudgeParser['kind']> = Extract<JudgeParser, { kind: Kind }>

/** Reads the verdict as a number. With `where: last_line`, it reads only the last line with text, as verl's judge does. */
export function readNumber(text: string, spec: Spec<'number'>): Verdict {
  const { where, label } = spec
  const part =
    where === 'last_line'
      ? (text
          .trimEnd()
          .split(/\r\n|[\r\n]/)
          .at(-1) ?? '')
      : text
  if (label !== undefined) return oneVerdict(behindLabel(part, label, spec))
  if (where !== 'whole') return oneVerdict(numbersIn(part, spec))
  const number = numberOf(part, spec)
  return number === null
    ? { ok: false, problem: 'the reply is not a single number' }
    : oneVerdict([number])
}

function behindLabel(text: string, label: string, spec: Spec<'number'>): Finding[] {
  const escaped = label.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
  const labels = new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, 'giu')
  const findings: Finding[] = []
  for (const match of text.matchAll(labels)) {
    const found = numberAtStartOf(text.slice(match.index + match[0].length), spec)
    if (found !== null) findings.push(found)
  }
  return findings
}

/**
 * Reads `[[n]]`, as in MT-Bench's prompts. Brackets without a digit (`[[rating]]`, repeated from the prompt) are not
 * verdicts; brackets with digits that are not a number (`[[1-10]]`) make the reply ambiguous.
 */
export function readBracketed(text: string, spec: Spec<'bracketed'>): Verdict {
  const findings: Finding[] = []
  for (const [whole, inside = ''] of text.matchAll(/\[\[([^[\]]*)\]\]/g)) {
    const found = numberOf(inside, spec)
    if (found !== null) findings.push(found.ok ? { ...found, text: whole } : found)
    else if (/\d/.test(inside)) findings.push({ ok: false, problem: `${whole} is not a number` })
  }
  return oneVerdict(findings)
}

/**
 * Reads `\boxed{…}` with a number, or with a word that has a score in `labels`. Boxes with neither are not verdicts.
 */
export function readBoxed(text: string, spec: Spec<'boxed'>): Verdict {
  const findings: Finding[] = []
  for (const inside of boxesIn(text)) {
    const plain = inside
      .replace(/\\text\{([^{}]*)\}/g, '$1')
      .replaceAll('$', '')
      .trim()
    const whole = `\\boxed{${inside}}`
    const labeled = scoreOfWord(plain, spec.labels)
    if (labeled !== undefined) {
      findings.push({ ok: true, value: labeled, text: whole })
      continue
    }
    const found = numberOf(plain, spec)
    if (found !== null) findings.push(found.ok ? { ...found, text: whole } : found)
    else if (/\d/.test(plain)) findings.push({ ok: false, problem: `${whole} is not a number` })
  }
  return oneVerdict(findings)
}

/** Returns the contents of every `\boxed{…}` with matching braces, in order. Nested boxes are part of the outer one. */
function boxesIn(text: string): string[] {
  const opening = '\\boxed{'
  const boxes: string[] = []
  let at = text.indexOf(opening)
  while (at >= 0) {
    const start = at + opening.length
    const end = closingBrace(text, start)
    // A box that is not closed extends to the end of the text and contains all later boxes.
    if (end < 0) break
    boxes.push(text.slice(start, end))
    at = text.indexOf(opening, end)
  }
  return boxes
}

function closingBrace(text: string, start: number): number {
  let depth = 1
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') depth++
    else if (text[at] === '}' && --depth === 0) return at
  }
  return -1
}

export function readVerdict(text: string, spec: Spec<'verdict'>): Verdict {
  const sides = { A: 'A', B: 'B', C: 'tie' } as const
  const scores = { A: spec.a, B: spec.b, tie: spec.tie }
  let only: { side: 'A' | 'B' | 'tie'; text: string } | undefined
  for (const [whole, letter = ''] of text.matchAll(/\[\[\s*([ABC])\s*\]\]/gi)) {
    const side = sides[letter.toUpperCase() as keyof typeof sides]
    // The sides are compared, not the scores, because a tie may have the same score as a loss.
    if (only !== undefined && only.side !== side) {
      return { ok: false, problem: `two verdicts: ${only.text} and ${whole}` }
    }
    only ??= { side, text: whole }
  }
  if (only === undefined) return { ok: false, problem: 'no verdict in the reply' }
  return { ok: true, value: scores[only.side], found: only.text, side: only.side }
}

export function scoreOfWord(
  word: string,
  labels: Record<string, number> | undefined,
): number | undefined {
  for (const [label, score] of Object.entries(labels ?? {})) {
    if (label.toLowerCase() === word.trim().toLowerCase()) return score
  }
  return undefined
}

/** Reads the JSON value at the score's path as a score. */
export function findingOf(
  value: unknown,
  spec: { min?: number | undefined; max?: number | undefined } & {
    labels?: Record<string, number> | undefined
  },
): Finding {
  const text = JSON.stringify(value) ?? 'nothing'
  if (typeof value === 'number') return withinRange(value === 0 ? 0 : value, text, spec)
  if (typeof value === 'string' || typeof value === 'boolean') {
    const labeled = scoreOfWord(String(value), spec.labels)
    if (labeled !== undefined) return { ok: true, value: labeled, text }
    const number = typeof value === 'string' ? numberOf(value, spec) : null
    if (number !== null) return number
  }
  return { ok: false, problem: `${text.slice(0, 100)} is not a score` }
}
