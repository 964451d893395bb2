import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type BannedPhrase, checkGlossary } from './check-glossary.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'glossary-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function check(files: Record<string, string>, ...banned: BannedPhrase[]): string[] {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  return checkGlossary(root, banned)
}

test('a finding names file, line, phrase and replacement, also across a line break', () => {
  const docs: BannedPhrase = { phrase: 'put out', replacement: 'ejected', scope: 'docs' }
  const files = {
    'docs/a.md': 'One.\nA server is Put\nout. We compute output.',
    'components/a.tsx': 'put out',
    'node_modules/b/a.md': 'put out',
  }
  expect(check(files, docs)).toEqual(['docs/a.md:2: "put out": write "ejected"'])
})

test('scope ui reads app and components without tests', () => {
  const ui: BannedPhrase = { phrase: 'by lot', replacement: 'weighted random', scope: 'ui' }
  const files = Object.fromEntries(
    ['app/a.tsx', 'components/b.ts', 'components/b.test.ts', 'server/c.ts', 'd.md'].map((file) => [
      file,
      `const label = 'By lot'`,
    ]),
  )
  expect(check(files, ui)).toEqual([
    'app/a.tsx:1: "by lot": write "weighted random"',
    'components/b.ts:1: "by lot": write "weighted random"',
  ])
})

test('identifiers are whole words and case-sensitive', () => {
  const name: BannedPhrase = {
    phrase: 'JobInHand',
    replacement: 'ClaimedJob',
    scope: 'identifier',
  }
  const files = { 'server/a.ts': 'const jobInHand = 1\nnew JobInHands()\nnew JobInHand()' }
  expect(check(files, name)).toEqual(['server/a.ts:3: "JobInHand": write "ClaimedJob"'])
})

test('scope text reads comments and test titles too', () => {
  const text: BannedPhrase = { phrase: 'anew', replacement: 'again', scope: 'text' }
  const files = {
    'server/a.ts': '// Anew after a failure',
    'server/a.test.ts': "test('starts anew')",
    'docs/a.md': 'It starts anew.',
  }
  expect(check(files, text)).toEqual([
    'docs/a.md:1: "anew": write "again"',
    'server/a.test.ts:1: "anew": write "again"',
    'server/a.ts:1: "anew": write "again"',
  ])
})

test('exceptions are files or texts', () => {
  const docs: BannedPhrase = {
    phrase: 'anew',
    replacement: 'again',
    scope: 'docs',
    exceptions: ['CHANGELOG.md', 'docs/quotes/*.md', '“Begin anew”'],
  }
  const files = {
    'CHANGELOG.md': 'anew',
    'docs/quotes/a.md': 'anew',
    'docs/b.md': 'The test “Begin anew” runs.\nIt starts anew.',
  }
  expect(check(files, docs)).toEqual(['docs/b.md:2: "anew": write "again"'])
})
