/** A text around the answer that was found in it. */
export interface Excerpt {
  before: string
  found: string
  after: string
  /** Characters left out at either end. */
  cutBefore: number
  cutAfter: number
}

/** Characters kept before and after what was found. */
const BEFORE = 600
const AFTER = 300

/** The last place of a text where `found` stands; null where it does not stand in it as it is. */
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

/** Not between the two halves of a character. */
function boundary(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}
