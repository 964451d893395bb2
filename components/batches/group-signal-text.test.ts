import { describe, expect, test } from 'vitest'
import { noSignals } from '../../server/contract/group-signal.ts'
import { teachNothingInShort, teachNothingText } from './group-signal-text.ts'

describe('what the groups of a batch teach, in words', () => {
  test('how many teach nothing, and why', () => {
    expect(teachNothingText({ ...noSignals(), varied: 90, all_right: 30, all_wrong: 8 })).toBe(
      '38 of 128 no-signal: 30 all correct, 8 all incorrect',
    )
    expect(teachNothingInShort({ ...noSignals(), varied: 110, all_right: 18 })).toMatch(
      /^18 no-signal, 14/,
    )
    expect(teachNothingText({ ...noSignals(), all_failed: 2, single: 1 })).toBe(
      '3 of 3 no-signal: 1 single sample, 2 none scored',
    )
  })

  test('nothing to complain of', () => {
    expect(teachNothingText({ ...noSignals(), varied: 4 })).toBe('all varied')
    expect(teachNothingText({ ...noSignals(), single: 4 })).toBe('single-sample groups')
    expect(teachNothingText(noSignals())).toBe('none completed')
  })
})
