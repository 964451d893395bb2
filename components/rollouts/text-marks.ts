/** A highlighted range of a text, in UTF-16 code units. */
export interface TextMark {
  start: number
  end: number
  kind: MarkKind
  /** For a token, its score relative to the largest absolute score, −1 to 1. */
  level?: number
  /** The tooltip. By default the one in {@link MARK_TEXT}. */
  title?: string
}

/**
 * `removed`, `added`: the sides of a diff. `credit`, `penalty`: spans with a reward above or below 0. `token`: a token
 * with its score.
 */
export type MarkKind =
  | 'answer'
  | 'evidence'
  | 'search'
  | 'removed'
  | 'added'
  | 'credit'
  | 'penalty'
  | 'token'

export const MARK_TEXT: Record<MarkKind, string> = {
  answer: 'Last occurrence of the extracted answer',
  evidence: 'Quoted in the reward extra info',
  search: 'Search match',
  removed: 'Differs from the right response',
  added: 'Differs from the left response',
  credit: 'Span with a positive reward',
  penalty: 'Span with a negative reward',
  token: 'Token with its score',
}

export function markProps({ kind, level, title = MARK_TEXT[kind] }: MarkLook) {
  if (level === undefined) return { 'data-mark': kind, title }
  const strength = `${Math.round(Math.abs(level) * 100)}%`
  return {
    'data-mark': kind,
    'data-sign': level < 0 ? 'minus' : 'plus',
    title,
    style: { '--strength': strength } as React.CSSProperties,
  }
}

export type MarkLook = Pick<TextMark, 'kind' | 'level' | 'title'>

const MAX_SEARCH_MARKS = 500
/**
 * Maximum number of candidates checked for the answer. A text of one repeated character has a candidate at each
 * position.
 */
const MAX_CANDIDATES = 2_000

/**
 * The last verbatim occurrence of the extracted answer as a whole word or number. Null if there is none, for example
 * because the rule normalized the answer.
 */
export function answerMark(text: string, extracted: string | null): TextMark | null {
  const answer = extracted?.trim() ?? ''
  if (answer === '' || isShortened(answer)) return null
  let at = text.lastIndexOf(answer)
  for (let n = 0; at >= 0 && n < MAX_CANDIDATES; n++) {
    const end = at + answer.length
    if (isWhole(text, at, end)) return { start: at, end, kind: 'answer' }
    at = at === 0 ? -1 : text.lastIndexOf(answer, at - 1)
  }
  return null
}

/** Whether an extracted answer is shortened. Long answers are stored as their first 199 characters and an ellipsis. */
export function isShortened(extracted: string): boolean {
  return extracted.length === 200 && extracted.endsWith('…')
}

const WORD = /[\p{L}\p{N}_]/u
const DIGIT = /\d/

/** Whether a range is a whole word or number. The 2 in 12, 2.5, 1,200 and 4/2 is not. */
function isWhole(text: string, start: number, end: number): boolean {
  const [first, last] = [text[start] as string, text[end - 1] as string]
  const [before, after] = [text[start - 1] ?? '', text[end] ?? '']
  if (WORD.test(first) && WORD.test(before)) return false
  if (WORD.test(last) && WORD.test(after)) return false
  if (DIGIT.test(first) && /[.,/]/.test(before) && DIGIT.test(text[start - 2] ?? '')) return false
  if (DIGIT.test(first) && before === '-' && !/[\d\w)\]]/.test(text[start - 2] ?? '')) return false
  return !(DIGIT.test(last) && /[.,/]/.test(after) && DIGIT.test(text[end + 1] ?? ''))
}

/** Keys of the reward extra info under which judges and functions quote a response. */
const EVIDENCE_KEYS = /^(?:.*[_.])?(?:evidence|quotes?|quoted|quoted_text)$/i
/** Quotes shorter than this are ignored, because they would match by chance. */
const MIN_QUOTE_CHARS = 4
const MAX_QUOTES = 50

export function quotesOf(extra: Record<string, unknown>): string[] {
  return Object.entries(extra)
    .filter(([key]) => EVIDENCE_KEYS.test(key))
    .flatMap(([, value]) => (Array.isArray(value) ? value : [value]))
    .filter((value): value is string => typeof value === 'string')
    .map((quote) => quote.trim().replace(/^["“”']+|["“”']+$/g, ''))
    .filter((quote) => quote.length >= MIN_QUOTE_CHARS)
    .slice(0, MAX_QUOTES)
}

export function evidenceMarks(text: string, extra: Record<string, unknown>): TextMark[] {
  return quotesOf(extra).flatMap((quote) => {
    const start = text.indexOf(quote)
    return start < 0 ? [] : [{ start, end: start + quote.length, kind: 'evidence' as const }]
  })
}

export function searchMarks(text: string, pattern: RegExp | null): TextMark[] {
  if (pattern === null) return []
  const marks: TextMark[] = []
  for (const match of text.matchAll(pattern)) {
    if (marks.length === MAX_SEARCH_MARKS) break
    if (match[0] === '') continue
    marks.push({ start: match.index, end: match.index + match[0].length, kind: 'search' })
  }
  return marks
}

export function marksIn(marks: readonly TextMark[], start: number, end: number): TextMark[] {
  if (marks.length === 0) return []
  return marks
    .filter((mark) => mark.end > start && mark.start < end)
    .map((mark) => ({
      ...mark,
      start: Math.max(mark.start, start) - start,
      end: Math.min(mark.end, end) - start,
    }))
}

export interface MarkedRun {
  start: number
  end: number
  mark: MarkLook | null
}

const RANK: Record<MarkKind, number> = {
  answer: 0,
  search: 1,
  evidence: 2,
  removed: 3,
  added: 3,
  credit: 4,
  penalty: 4,
  token: 5,
}

/** Splits the text `0..length` at its marks. Where marks overlap, the more specific one is drawn. */
export function markedRuns(length: number, marks: readonly TextMark[]): MarkedRun[] {
  if (marks.length === 0) return length === 0 ? [] : [{ start: 0, end: length, mark: null }]
  const edges = new Set([0, length])
  for (const { start, end } of marks) edges.add(Math.max(0, start)).add(Math.min(length, end))
  const sorted = [...edges].sort((a, b) => a - b)
  const starting = [...marks].sort((a, b) => a.start - b.start)
  const runs: MarkedRun[] = []
  let next = 0
  let open: TextMark[] = []
  for (let i = 0; i + 1 < sorted.length; i++) {
    const [start, end] = [sorted[i] as number, sorted[i + 1] as number]
    while (next < starting.length && (starting[next] as TextMark).start <= start) {
      open.push(starting[next++] as TextMark)
    }
    open = open.filter((mark) => mark.end > start)
    const mark = open.reduce<TextMark | null>(
      (best, each) => (best === null || RANK[each.kind] < RANK[best.kind] ? each : best),
      null,
    )
    const before = runs.at(-1)
    if (before !== undefined && isSameLook(before.mark, mark)) before.end = end
    else runs.push({ start, end, mark })
  }
  return runs
}

/** Whether neighboring marks are drawn as one. Tokens are never joined. */
function isSameLook(a: MarkLook | null, b: MarkLook | null): boolean {
  return a === b || (a !== null && a.kind === b?.kind && a.kind !== 'token')
}
