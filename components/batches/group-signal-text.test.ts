import { describe, expect, test } from 'vitest'
import { noSignals } from '../../server/wire/group-signal.ts'
import { teachNothingInShort, teachNothingText } from './group-signal-text.ts'

describe('what the groups of a batch teach, in words', () => {
  test('how many teach nothing, and why', () => {
    expect(teachNothingText({ ...noSignals(), varied: 90, all_right: 30, all_wrong: 8 })).toBe(
      '38 of 128 teach nothing: 30 all right, 8 all wrong',
    )
    expect(teachNothingInShort({ ...noSignals(), varied: 110, all_right: 18 })).toMatch(
      /^18 teach nothing, 14/,
    )
    expect(teachNothingText({ ...noSignals(), all_failed: 2, single: 1 })).toBe(
      '3 of 3 teach nothing: 1 one scored, 2 none scored',
    )
  })

  test('nothing to complain of', () => {
    expect(teachNothingText({ ...noSignals(), varied: 4 })).toBe('all of them varied')
    expect(teachNothingText({ ...noSignals(), single: 4 })).toBe('one scored member each')
    expect(teachNothingText(noSignals())).toBe('none completed')
  })
})
