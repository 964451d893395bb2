export type Verdict =
  | {
      ok: true
      value: number
      /** The part of the reply that contains the score. */
      found: string
      /** The winner of a comparison. */
      side?: 'A' | 'B' | 'tie'
    }
  | { ok: false; problem: string }

/** A passage of a reply with a score, or with a score that cannot be read. */
export type Finding = { ok: true; value: number; text: string } | { ok: false; problem: string }

/**
 * Combines all passages of a reply that contain a verdict. A repeated verdict is accepted. If two verdicts differ or
 * one is unreadable, there is no verdict, because the intended one is unknown.
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
