import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { PLANTED_BUGS, patched, pathOf } from './planted-bugs.ts'
import { canStrike, scheduleOf } from './schedule.ts'
import { SETUPS } from './setups.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CATCHES = fileURLToPath(new URL('./planted.json', import.meta.url))

test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))(
  'the patches of the planted bug %s still apply',
  (_name, bug) => {
    const texts = new Map<string, string>()
    for (const patch of bug.patches) {
      const path = pathOf(patch.file, ROOT)
      const before = texts.get(path) ?? readFileSync(path, 'utf8')
      texts.set(path, patched(before, patch))
    }
    for (const [path, text] of texts) {
      expect(text).not.toBe(readFileSync(path, 'utf8'))
      // Throws a SyntaxError if the patched file does not load.
      if (path.endsWith('.ts')) stripTypeScriptTypes(text)
    }
  },
)

test('every planted bug has a unique name, a law, and faults that its setup supports', () => {
  expect(new Set(PLANTED_BUGS.map(({ name }) => name)).size).toBe(PLANTED_BUGS.length)
  expect(PLANTED_BUGS.length).toBeGreaterThanOrEqual(20)
  for (const { laws, kinds, setup } of PLANTED_BUGS) {
    expect(laws.length).toBeGreaterThan(0)
    const setups = SETUPS.filter(({ name }) => setup === undefined || name === setup)
    for (const kind of kinds) expect(setups.some((one) => canStrike(kind, one))).toBe(true)
  }
})

test('every recorded catch has a planted bug, one of its laws, and a seed with faults', () => {
  const catches = JSON.parse(readFileSync(CATCHES, 'utf8')) as Record<
    string,
    { seed: number; laws: string[]; episodes: number }
  >
  for (const [name, { seed, laws, episodes }] of Object.entries(catches)) {
    const bug = PLANTED_BUGS.find((one) => one.name === name)
    expect(bug, name).toBeDefined()
    expect(laws.some((law) => (bug!.laws as string[]).includes(law))).toBe(true)
    expect(episodes).toBeLessThanOrEqual(50)
    expect(
      scheduleOf(seed, { kinds: bug!.kinds, setup: bug!.setup }).faults.length,
    ).toBeGreaterThan(0)
  }
})
