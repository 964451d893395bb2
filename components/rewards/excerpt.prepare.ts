interface Excerpt {
  before: string
  found: string
  after: string
  /** Numbers of characters omitted at the start and at the end. */
  cutBefore: number
  cutAfter: number
}

const BEFORE = 600
const AFTER = 300

/** The last occurrence of `found` in a text, with its context. Null if there is none. */
export function excerptAround(text: string, found: string): Excerpt | null {
  const at = found === '' ? -1 : text.lastIndexOf(found)
  if (at < 0) return null
  const end = at + found.length
  const from = at <= BEFORE ? 0 : boundary(text, at - BEFORE)
  const to = text.length - end <= AFTER ? text.length : boundary(text, end + AFTER)
  return {
    before: text.slice(from, at),
    found,
    after: text.slice(end, to),
    cutBefore: from,
    cutAfter: text.length - to,
  }
}

/** A position at or just before `at` that splits no surrogate pair. */
function boundary(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}
