import { describe, expect, test, vi } from 'vitest'
import { nextPath } from '../session/next-path.ts'
import { collectKeys, queryAfter } from './early-keys.ts'
import { isOn } from './pages.ts'
import { matchEntries, type PaletteEntry, paletteSections, THIS_PAGE } from './palette.prepare.ts'
import { withPlace } from './recent-places.ts'

const entry = (kind: PaletteEntry['kind'], label: string, about = ''): PaletteEntry => ({
  id: label,
  kind,
  label,
  about,
  href: kind === 'action' ? null : kind === 'batch' ? `/batches/${label}` : `/${label}`,
})
const entries = [
  entry('page', 'Batches'),
  entry('page', 'Samples'),
  entry('batch', 'b12', 'gsm8k-grpo · step 4'),
  entry('run', 'math-ppo', 'run'),
  entry('server', 'rm-1', 'server · ready'),
]
const found = (typed: string) => matchEntries(entries, typed).map((each) => each.label)

describe('keys pressed while the palette opens', () => {
  test('become its query; Backspace removes a character, and Escape cancels', () => {
    const queryOf = (keys: string[]) =>
      keys.reduce<string | null>(
        (query, key) => (query === null ? null : queryAfter(query, key)),
        '',
      )
    expect(queryOf(['p', 'l', ' ', 'é', '😀', 'Shift', 'F5', 'Tab', 'Enter'])).toBe('pl é😀')
    expect(queryOf(['a', '😀', 'Backspace'])).toBe('a')
    expect(queryOf(['Backspace', 'a'])).toBe('a')
    expect(queryOf(['a', 'Escape'])).toBeNull()
  })

  test('do not reach the page, except for keys of the browser', () => {
    const target = new EventTarget()
    const onQuery = vi.fn()
    const onCancel = vi.fn()
    const stop = collectKeys(target, onQuery, onCancel)
    const press = (key: string, how: { ctrlKey?: boolean; altGraph?: boolean } = {}) => {
      const event = new Event('keydown', { cancelable: true })
      Object.assign(event, { key, ...how, getModifierState: () => how.altGraph === true })
      const browser = target.dispatchEvent(event)
      return { page: !event.cancelBubble, browser }
    }
    const neither = { page: false, browser: false }
    expect(press('l')).toEqual(neither)
    expect(press('@', { ctrlKey: true, altGraph: true })).toEqual(neither)
    expect(onQuery.mock.calls).toEqual([['l'], ['l@']])
    for (const key of ['Enter', 'Escape']) expect(press(key)).toEqual(neither)
    expect(press('k', { ctrlKey: true })).toEqual(neither)
    expect(press('F5')).toEqual({ page: false, browser: true })
    expect(press('c', { ctrlKey: true })).toEqual({ page: false, browser: true })
    expect(onQuery).toHaveBeenCalledTimes(2)
    expect(onCancel).toHaveBeenCalledTimes(1)
    stop()
    expect(press('l')).toEqual({ page: true, browser: true })
    expect(onQuery).toHaveBeenCalledTimes(2)
  })
})

describe('palette search', () => {
  test('matches by prefix, substring, secondary text and subsequence', () => {
    expect(found('bat')).toEqual(['Batches'])
    expect(found('ppo')).toEqual(['math-ppo'])
    expect(found('grpo')).toEqual(['b12'])
    expect(found('smp')).toEqual(['Samples'])
  })

  test('offers any batch or sample ID, listed or not', () => {
    expect(found('b12')).toEqual(['b12'])
    expect(matchEntries(entries, 'b999')[0]?.href).toBe('/batches/b999')
    expect(matchEntries(entries, ' B999-7 ')[0]?.href).toBe('/samples?batch=b999&sample=b999-7')
    expect(found('zzz')).toEqual([])
  })
})

describe('palette sections', () => {
  const all = [
    entry('action', 'Rescore b12', THIS_PAGE),
    entry('action', 'Dark theme'),
    ...entries,
    entry('batch', 'b7', 'math-ppo · step 1'),
  ]
  test('are recent pages, actions of the page, all pages and global actions', () => {
    const sections = paletteSections(all, ' ', ['/batches/b7', '/batches/b900'])
    expect(
      sections.map(({ title, entries }) => [title, entries.map(({ label }) => label)]),
    ).toEqual([
      ['Recent', ['b7', 'b900']],
      ['On this page', ['Rescore b12']],
      ['Go to', ['Batches', 'Samples']],
      ['Actions', ['Dark theme']],
    ])
  })

  test('become one list on search; among equal matches, recent pages come first', () => {
    const labels = (typed: string, recent: string[] = []) =>
      paletteSections(all, typed, recent).flatMap((s) => s.entries.map(({ label }) => label))
    expect(labels('dark')).toEqual(['Dark theme'])
    expect(labels('rescore 12')).toEqual(['Rescore b12'])
    expect(labels('step 4')).toEqual(['b12'])
    expect(labels('step')).toEqual(['b7', 'b12'])
    expect(labels('step', ['/batches/b12'])).toEqual(['b12', 'b7'])
    expect(labels('zzz')).toEqual([])
  })

  test('recent pages list each detail page once, newest first', () => {
    const kept = ['/batches/b1', '/runs/a%20b']
    expect(withPlace(kept, '/runs/a%20b')).toEqual(['/runs/a%20b', '/batches/b1'])
    expect(withPlace(kept, '/batches')).toEqual(kept)
    const many = Array.from({ length: 30 }, (_, i) => `/batches/b${i}`)
    expect(withPlace(many, '/servers/rm')).toHaveLength(12)
  })
})

test('a navigation entry is current for pages below it', () => {
  expect([
    isOn('/batches/b1', '/batches'),
    isOn('/batchesx', '/batches'),
    isOn('/batches', '/'),
  ]).toEqual([true, false, false])
})

test('redirects after sign-in stay on this service', () => {
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
