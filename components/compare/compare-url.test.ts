import { describe, expect, test } from 'vitest'
import { comparePairHref, compareRunsHref, compareUrl } from './compare-url.ts'

const parse = (query: string) => compareUrl.parse(new URLSearchParams(query))
const again = (query: string) => compareUrl.write(parse(query)).toString()

describe('Compare URL', () => {
  test('round-trips the whole state', () => {
    for (const query of [
      '',
      'a=b12',
      'a=b12&b=b15&by=rank&signFlipped=1&uid=q-1&cell=1-0&open=b12-3%7Eb15-3',
      'of=runs',
      'run=a&run=b%2Fc&hide=a&split=val&band=most&zoom=3-9&log=1&config=all',
    ])
      expect(again(query)).toBe(query)
  })

  test('ignores a batch compared with itself, a ninth run, and hidden runs that are not overlaid', () => {
    expect(parse('a=b12&b=b12').second).toBeNull()
    expect(parse('a=12&b=drop').first).toBeNull()
    expect(parse('a=b1&open=b1-0').open).toBeNull()
    expect(parse(Array.from({ length: 9 }, (_, i) => `run=r${i}`).join('&')).runs).toHaveLength(8)
    expect(again('run=a&hide=b')).toBe('run=a')
  })

  test('links to a pair and to runs', () => {
    expect(comparePairHref('b1', 'b2')).toBe('/compare?a=b1&b=b2')
    expect(comparePairHref('b1')).toBe('/compare?a=b1')
    expect(parse(compareRunsHref(['a&b', 'c']).slice('/compare?'.length)).runs).toEqual([
      'a&b',
      'c',
    ])
    expect(compareRunsHref([])).toBe('/compare?of=runs')
    expect(compareRunsHref(['a'], 'val')).toBe('/compare?run=a&split=val')
  })
})
