const MIN_CHARS = 20
const MIN_BITS = 80
const WORDS =
  /password|passwort|secret|change|default|example|rewardops|reward|trainer|admin|token|test|demo|prod|local|user|root|key|api|the|for|my|of|an?d|foo|bar|qwertz|qwerty|asdf|hello|world|letmein|welcome|dragon|monkey|master|login|access/gi

/**
 * Returns the reason why a key of REWARDOPS_API_KEYS is too easy to guess, or null if the key is acceptable. The reason
 * does not quote the key. The check estimates the entropy of the key: a common word, a repeated character, an ascending
 * or descending sequence (`abcd`, `4321`) and a repeated substring count as one character each.
 */
export function whyGuessable(key: string): string | null {
  if (key.length < MIN_CHARS) return `has ${key.length} characters, fewer than ${MIN_CHARS}`
  const bits = Math.floor(fresh(key.replace(WORDS, '\0')) * Math.log2(alphabetOf(key)))
  return bits >= MIN_BITS ? null : `has about ${bits} bits of entropy, fewer than ${MIN_BITS}`
}

/** The number of characters that neither continue a sequence nor repeat an earlier substring. */
function fresh(text: string): number {
  const seen = new Set<string>()
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const step = text.charCodeAt(i) - text.charCodeAt(i - 1)
    const part = text.slice(i - 2, i + 1)
    const isRepeated = i >= 2 && seen.has(part)
    if (i >= 2) seen.add(part)
    if (!isRepeated && !(Math.abs(step) <= 1)) count++
  }
  return count
}

function alphabetOf(key: string): number {
  const classes: [RegExp, number][] = [
    [/\d/, 10],
    [/[a-z]/, 26],
    [/[A-Z]/, 26],
    [/[^\da-zA-Z]/, 32],
  ]
  return classes.reduce((sum, [has, size]) => sum + (has.test(key) ? size : 0), 0)
}
