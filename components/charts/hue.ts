import { correctnessOf } from '../../server/contract/verdicts.ts'

/**
 * The kinds of names that have a hue. A name has the same hue on every page: one of eight, selected by its hash. If
 * another name of the same kind already has that hue, the next free hue is assigned and stored.
 */
export type HueKind = 'run' | 'source' | 'server' | 'reason' | 'worker' | 'component'

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

export function pickHue(name: string, taken: readonly number[]): number {
  const own = (nameHash(name) % HUES) + 1
  return freeHue(own, taken) ?? own
}

function freeHue(own: number, taken: readonly number[]): number | undefined {
  return Array.from({ length: HUES }, (_, i) => ((own - 1 + i) % HUES) + 1).find(
    (hue) => !taken.includes(hue),
  )
}

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

interface ColoredOutcome {
  kind: 'verdict' | 'other' | 'failed' | 'substituted'
  label: string
}

/** Hues of correct and incorrect samples, the same as for all-correct and all-incorrect groups. */
const [CORRECT_HUE, INCORRECT_HUE] = [3, 2]
/** A gray hue that resembles the color of `other`. */
const GRAY_HUE = 8
/** Verdicts with a fixed hue. `some passed` is an incorrect verdict, but must look different from `none passed`. */
const FIXED_HUES: Readonly<Record<string, number>> = { 'no answer': 1, 'some passed': 7 }

/**
 * The colors of a chart's outcomes, in the same order. Verdicts have different hues until all eight are used. Correct,
 * incorrect and fixed verdicts get their hues first, then the other names get their hashed hues. The hues depend only
 * on the names, not on their order or on this browser.
 */
export function outcomeColors(outcomes: readonly ColoredOutcome[]): string[] {
  const hues = verdictHues(
    outcomes.flatMap(({ kind, label }) => (kind === 'verdict' ? [label] : [])),
    outcomes.some(({ kind }) => kind === 'other') ? [GRAY_HUE] : [],
  )
  return outcomes.map(({ kind, label }) => {
    if (kind === 'verdict') return `var(--data-${hues.get(label)})`
    if (kind === 'failed') return 'var(--bad)'
    return kind === 'substituted' ? 'var(--warn)' : 'var(--ink-3)'
  })
}

function verdictHues(
  verdicts: readonly string[],
  without: readonly number[],
): ReadonlyMap<string, number> {
  const wanted = verdicts.map((name) => {
    const correctness = correctnessOf(name)
    const ofCorrectness =
      correctness === null ? undefined : correctness === 'correct' ? CORRECT_HUE : INCORRECT_HUE
    const given = FIXED_HUES[name] ?? ofCorrectness
    return { name, own: given ?? (nameHash(name) % HUES) + 1, isGiven: given !== undefined }
  })
  // The order does not depend on the locale, which may differ between server and browser.
  const inOrder = wanted.toSorted(
    (a, b) => Number(b.isGiven) - Number(a.isGiven) || (a.name < b.name ? -1 : 1),
  )
  const hues = new Map<string, number>()
  const taken = [...without]
  const give = (name: string, hue: number) => {
    hues.set(name, hue)
    taken.push(hue)
  }
  for (const { name, own, isGiven } of inOrder) if (isGiven && !taken.includes(own)) give(name, own)
  for (const { name, own } of inOrder) {
    if (hues.has(name)) continue
    const kept = [...taken, CORRECT_HUE, INCORRECT_HUE]
    give(name, freeHue(own, kept) ?? freeHue(own, taken) ?? own)
  }
  return hues
}
