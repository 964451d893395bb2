/** What a reply says: one score, or why it says none. */
export type Verdict =
  | {
      ok: true
      value: number
      /** The words of the reply that it was read from. */
      found: string
      /** Of a comparison. */
      side?: 'A' | 'B' | 'tie'
    }
  | { ok: false; problem: string }

/** A place in a reply that says a score, or ought to. */
export type Finding = { ok: true; value: number; text: string } | { ok: false; problem: string }

/**
 * The one verdict of all places where a reply gives one. Said twice it counts once; two different ones are none, and so
 * is a place that ought to hold a score and does not: which of them is meant is not for us to guess.
 */
export function oneVerdict(findings: readonly Finding[]): Verdict {
  let only: Extract<Finding, { ok: true }> | undefined
  for (const finding of findings) {
    if (!finding.ok) return finding
    if (only !== undefined && only.value !== finding.value) {
      return { ok: false, problem: `two verdicts: ${only.text} and ${finding.text}` }
    }
    only ??= finding
  }
  if (only === undefined) return { ok: false, problem: 'no verdict in the reply' }
  return { ok: true, value: only.value, found: only.text }
}
