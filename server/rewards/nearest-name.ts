/**
 * Finds the known name that is nearest to a mistyped one, for the "Did you mean …" of error messages. A missing
 * suggestion is better than a wrong one.
 */

/** Longer names get no suggestion, because the cost of the distance grows with the product of both lengths. */
const MAX_NAME_CHARS = 128

/**
 * Returns the candidate that `name` was most likely meant to be, or undefined when none is near.
 *
 * A name is near if it differs by at most one edit per three characters; two edits are always allowed, so that two
 * swapped letters (`amie` for `aime`) count as near. Case is ignored. For a path such as `openai/gsm8k` the last
 * segment is tried as well. Ties go to a whole-name match, then to the earlier candidate.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length === 0 || name.length > MAX_NAME_CHARS) return undefined
  const wanted = name.toLowerCase()
  const wantedTail = lastSegment(wanted)
  let nearest: string | undefined
  let nearestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    if (candidate.length > MAX_NAME_CHARS) continue
    const known = candidate.toLowerCase()
    let distance = distanceWithin(wanted, known, allowedEdits(wanted, known))
    const knownTail = lastSegment(known)
    if (knownTail !== known || wantedTail !== wanted) {
      // Adds half an edit: at the same distance, a match of the whole name is the better guess.
      const allowed = allowedEdits(wantedTail, knownTail)
      distance = Math.min(distance, distanceWithin(wantedTail, knownTail, allowed) + 0.5)
    }
    if (distance < nearestDistance) {
      nearest = candidate
      nearestDistance = distance
    }
  }
  return nearest
}

function lastSegment(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1)
}

/**
 * Maximum number of edits for a near name: two, or a third of the longer name, but never enough to replace the whole
 * name.
 */
function allowedEdits(a: string, b: string): number {
  const longer = Math.max(a.length, b.length)
  return Math.min(Math.max(2, Math.floor(longer / 3)), Math.min(a.length, b.length) - 1)
}

function distanceWithin(a: string, b: string, allowed: number): number {
  if (Math.abs(a.length - b.length) > allowed) return Number.POSITIVE_INFINITY
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substitution = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1))
    }
    previous = current
  }
  const distance = previous[b.length]!
  return distance <= allowed ? distance : Number.POSITIVE_INFINITY
}

export function suggest(name: string, known: readonly string[]): string {
  const near = nearestName(name, known)
  const list = known.length > 0 ? `Known: ${known.join(', ')}.` : 'None is known yet.'
  return near ? `Did you mean "${near}"? ${list}` : list
}
