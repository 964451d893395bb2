import { describe, expect, test } from 'vitest'
import { nextPath } from '../session/next-path.ts'
import { isOn } from './pages.ts'
import { matchEntries, type PaletteEntry } from './palette.prepare.ts'

const entry = (kind: PaletteEntry['kind'], label: string, about = ''): PaletteEntry => ({
  id: label,
  kind,
  label,
  about,
  href: kind === 'batch' ? `/batches/${label}` : `/${label}`,
})
const entries = [
  entry('page', 'Batches'),
  entry('page', 'Samples'),
  entry('batch', 'b12', 'gsm8k-grpo · step 4'),
  entry('run', 'math-ppo', 'run'),
  entry('server', 'rm-1', 'server · ready'),
]
const found = (typed: string) => matchEntries(entries, typed).map((each) => each.label)

describe('the palette', () => {
  test('finds by beginning, by part, by what stands beside, by letters in order', () => {
    expect(found('bat')).toEqual(['Batches'])
    expect(found('ppo')).toEqual(['math-ppo'])
    expect(found('grpo')).toEqual(['b12'])
    expect(found('smp')).toEqual(['Samples'])
  })

  test('opens any batch and sample by its id, listed or not', () => {
    expect(found('b12')).toEqual(['b12'])
    expect(matchEntries(entries, 'b999')[0]?.href).toBe('/batches/b999')
    expect(matchEntries(entries, ' B999-7 ')[0]?.href).toBe('/samples?batch=b999&sample=b999-7')
    expect(found('zzz')).toEqual([])
  })
})

test('a page is current for what lies under it', () => {
  expect([
    isOn('/batches/b1', '/batches'),
    isOn('/batchesx', '/batches'),
    isOn('/batches', '/'),
  ]).toEqual([true, false, false])
})

test('after signing in one stays on this service', () => {
  expect(nextPath('/batches?run=a')).toBe('/batches?run=a')
  for (const other of [
    null,
    '',
    'https://evil.test',
    '//evil.test/x',
    '/\\evil.test',
    'javascript:1',
  ]) {
    expect(nextPath(other)).toBe('/')
  }
})
