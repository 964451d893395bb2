import { type EnvironmentRun, Environments } from './environments.ts'
import { type PlainMatch, PlainNumbers } from './plain-numbers.ts'

/** A part of a text that may be its answer. */
export type Candidate = { start: number; end: number } & (
  | { kind: 'latex'; run: EnvironmentRun }
  /** The text from the first box to the last brace. */
  | { kind: 'box' }
  | { kind: 'plain'; match: PlainMatch }
)

/** Notation of an answer. */
export type AnswerKind = 'latex' | 'plain'

/**
 * Maximum number of candidates tried per text. The candidates that end last are tried first, and nearly always one
 * of these is readable.
 */
export const MAX_CANDIDATES = 64

/** A text may have ten thousand occurrences of a phrase such as `answer`; only the last ones are used. */
const MAX_ANCHORS = 64

/**
 * Yields candidates in five groups of decreasing rank, as in Math-Verify 0.8.0: (1) after "final answer is … I hope",
 * (2) in boxes and after "final answer … is", (3) after "answer:", (4) after "answer", (5) anywhere. Within a group,
 * the candidate that ends last comes first. The time is linear in the length of the text.
 */
export function* candidateGroups(
  text: string,
  kinds: readonly AnswerKind[],
): Generator<Candidate[]> {
  const latex = kinds.includes('latex') ? new Environments(text) : null
  const plain = kinds.includes('plain') ? new PlainNumbers(text) : null
  const finals = lastMatches(text, /final answer/gi)
  const answers = finals.length > 0 || /answer/i.test(text) ? lastMatches(text, /answer/gi) : []

  yield ranked(finals.flatMap((at) => hoped(text, at, latex, plain)))
  yield ranked([
    ...finals.flatMap((at) => stated(text, at, latex, plain)),
    ...(latex ? boxes(text, latex) : []),
  ])
  yield ranked(answers.flatMap((at) => answered(text, at, true, latex, plain)))
  yield ranked(answers.flatMap((at) => answered(text, at, false, latex, plain)))
  yield ranked([
    ...(latex ? fromRuns(latex.runs(false)) : []),
    ...(plain ? fromPlain(plain.all('arithmetic')) : []),
    ...(plain ? fromPlain(plain.all('number')) : []),
  ])
}

function ranked(candidates: Candidate[]): Candidate[] {
  return candidates.sort((a, b) => b.end - a.end || a.start - b.start)
}

/** Candidates after "final answer is", as in "final answer is 5. I hope". */
function hoped(
  text: string,
  start: number,
  latex: Environments | null,
  plain: PlainNumbers | null,
): Candidate[] {
  const is = matchAt(/final answer is:?/iy, text, start)
  if (!is) return []
  const after = start + is.length
  const isHoped = (end: number) => matchAt(/\.?\s?I hope/y, text, end) !== null
  return [...latexAfter(text, after, latex), ...plainAfter(text, after, plain)]
    .filter((candidate) => isHoped(candidate.end))
    .map((candidate) => ({ ...candidate, start }))
}

/**
 * Candidates after "final answer … is", as in "final answer to the question is 5", with `is` within a hundred
 * characters.
 */
function stated(
  text: string,
  start: number,
  latex: Environments | null,
  plain: PlainNumbers | null,
): Candidate[] {
  const found: Candidate[] = []
  let hasLatex = latex === null
  let hasPlain = plain === null
  const from = start + 'final answer'.length
  const window = text.slice(from, from + 130)
  const line = window.indexOf('\n')
  for (const is of window.matchAll(/\sis:?/g)) {
    if (is.index > 100) break
    const after = from + is.index + is[0].length
    const [first] = hasLatex ? [] : latexAfter(text, after, latex)
    if (first) {
      found.push({ ...first, start })
      hasLatex = true
    }
    const isSameLine = line < 0 || is.index <= line
    const match = hasPlain || !isSameLine ? null : plain!.at(after)
    if (match) {
      found.push({ kind: 'plain', match, start, end: match.end })
      hasPlain = true
    }
    if (hasLatex && hasPlain) break
  }
  return found
}

/**
 * Candidates after "answer", as in "answer: 5" or "the answer, x = 5": within 50 characters, or after an equals sign
 * within 100.
 */
function answered(
  text: string,
  start: number,
  colon: boolean,
  latex: Environments | null,
  plain: PlainNumbers | null,
): Candidate[] {
  let from = start + 'answer'.length
  if (colon && text[from++] !== ':') return []
  const found: Candidate[] = []
  if (latex) {
    for (let at = from; at <= from + 50; at++) {
      const run = latex.runAt(at, false)
      if (!run) continue
      found.push({ kind: 'latex', run, start, end: run.end })
      break
    }
  }
  if (plain) {
    const match = plainAnswer(text, from, plain)
    if (match) found.push({ kind: 'plain', match, start, end: match.end })
  }
  return found
}

function plainAnswer(text: string, from: number, plain: PlainNumbers): PlainMatch | null {
  const window = text.slice(from, from + 101)
  const line = window.indexOf('\n')
  const length = line < 0 ? window.length : line
  const isFree = (match: PlainMatch | null) =>
    match !== null && matchAt(/\s{0,20}=/y, text, match.end) === null
  for (
    let at = window.lastIndexOf('=', length - 1);
    at >= 0;
    at = window.lastIndexOf('=', at - 1)
  ) {
    const spaces = matchAt(/\s{1,50}/y, text, from + at + 1)
    const match = spaces ? plain.at(from + at + spaces.length) : null
    if (isFree(match)) return match
    if (at === 0) break
  }
  for (let at = 0; at <= Math.min(50, length); at++) {
    const match = plain.at(from + at)
    if (isFree(match)) return match
  }
  return null
}

function boxes(text: string, latex: Environments): Candidate[] {
  const start = text.indexOf('\\boxed{')
  if (start < 0) return []
  const found = fromRuns(latex.runs(true))
  const end = text.lastIndexOf('}') + 1
  if (end > start + 8) found.push({ kind: 'box', start, end })
  return found
}

function latexAfter(text: string, after: number, latex: Environments | null): Candidate[] {
  if (!latex) return []
  const spaces = matchAt(/\s{0,50}/y, text, after)!.length
  const at = after + spaces
  const run = latex.runAt(at, false) ?? (text[at] === '[' ? latex.runAt(at - 1, false) : null)
  return run ? [{ kind: 'latex', run, start: run.start, end: run.end }] : []
}

function plainAfter(text: string, after: number, plain: PlainNumbers | null): Candidate[] {
  if (!plain) return []
  const spaces = matchAt(/\s{0,50}/y, text, after)!.length
  if (spaces === 0) return []
  const match = plain.at(after + spaces - 1)
  return match ? [{ kind: 'plain', match, start: match.start, end: match.end }] : []
}

function fromRuns(runs: Iterable<EnvironmentRun>): Candidate[] {
  return lastOf(runs).map((run) => ({ kind: 'latex', run, start: run.start, end: run.end }))
}

function fromPlain(matches: Iterable<PlainMatch>): Candidate[] {
  return lastOf(matches).map((match) => ({
    kind: 'plain',
    match,
    start: match.start,
    end: match.end,
  }))
}

function lastOf<T>(found: Iterable<T>): T[] {
  const last: T[] = []
  for (const one of found) {
    last.push(one)
    if (last.length >= 4 * MAX_CANDIDATES) last.splice(0, last.length - MAX_CANDIDATES)
  }
  return last.slice(-MAX_CANDIDATES)
}

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}

function lastMatches(text: string, pattern: RegExp): number[] {
  const all: number[] = []
  for (const match of text.matchAll(pattern)) {
    all.push(match.index)
    if (all.length >= 2 * MAX_ANCHORS) all.splice(0, MAX_ANCHORS)
  }
  return all.slice(-MAX_ANCHORS)
}
