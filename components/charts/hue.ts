import { correctnessOf } from '../../server/contract/verdicts.ts'

/**
 * The kinds of names that have a hue. Every page draws a name in the same one of eight hues, which is a hash of the
 * name. If another name of the same kind already has that hue, the next free hue is assigned and stored.
 */
export type HueKind = 'run' | 'source' | 'server' | 'reason' | 'worker' | 'component' | 'verdict'

const HUES = 8
const KEY = 'rewardops-hues'
let known: Record<string, number> | null = null

function load(): Record<string, number> {
  if (known !== null) return known
  try {
    known = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, number>
  } catch {
    known = {}
  }
  return known
}

/** FNV-1a, 32 bits: short names spread evenly over eight hues. */
export function nameHash(name: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0
  }
  return hash
}

/** Picks a hue from 1 to 8 for a name: its hashed hue, or the next free one if the hashed hue is taken. */
export function pickHue(name: string, taken: readonly number[]): number {
  const own = nameHash(name) % HUES
  if (taken.length < HUES) {
    for (let i = 0; i < HUES; i++) {
      const hue = ((own + i) % HUES) + 1
      if (!taken.includes(hue)) return hue
    }
  }
  return own + 1
}

/** The hashed hue of a name, as a CSS value. */
export function ownHue(name: string): string {
  return `var(--data-${pickHue(name, [])})`
}

export function hueOf(kind: HueKind, name: string): string {
  const hues = load()
  const key = `${kind}:${name}`
  const given = hues[key]
  if (given !== undefined) return `var(--data-${given})`
  const ofKind = Object.entries(hues).filter(([each]) => each.startsWith(`${kind}:`))
  const hue = pickHue(
    name,
    ofKind.map(([, taken]) => taken),
  )
  hues[key] = hue
  try {
    // The stored hues are reset after 400 names.
    if (Object.keys(hues).length > 400) known = { [key]: hue }
    localStorage.setItem(KEY, JSON.stringify(known))
  } catch {
    // Without browser storage, the hue lasts as long as the page.
  }
  return `var(--data-${hue})`
}

/** The color of an outcome. Correct and incorrect samples have the colors of all-correct and all-incorrect groups. */
export function outcomeColor(outcome: {
  kind: 'verdict' | 'other' | 'failed' | 'substituted'
  label: string
}): string {
  if (outcome.kind === 'verdict') {
    const correctness = correctnessOf(outcome.label)
    if (correctness === null) return hueOf('verdict', outcome.label)
    return correctness === 'correct' ? 'var(--data-3)' : 'var(--data-2)'
  }
  if (outcome.kind === 'failed') return 'var(--bad)'
  return outcome.kind === 'substituted' ? 'var(--warn)' : 'var(--ink-3)'
}
