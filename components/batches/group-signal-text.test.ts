import { describe, expect, test } from 'vitest'
import { noSignals } from '../../server/contract/group-signal.ts'
import { noSignalShortText, noSignalText } from './group-signal-text.ts'

describe('signal texts', () => {
  test('count no-signal groups by class', () => {
    expect(noSignalText({ ...noSignals(), varied: 90, all_correct: 30, all_incorrect: 8 })).toBe(
      '38 of 128 no-signal: 30 all correct, 8 all incorrect',
    )
    expect(noSignalShortText({ ...noSignals(), varied: 110, all_correct: 18 })).toMatch(
      /^18 no-signal, 14/,
    )
    expect(noSignalText({ ...noSignals(), all_failed: 2, single_sample: 1 })).toBe(
      '3 of 3 no-signal: 1 single sample, 2 none scored',
    )
  })

  test('list no classes if there are no no-signal groups', () => {
    expect(noSignalText({ ...noSignals(), varied: 4 })).toBe('All varied')
    expect(noSignalText({ ...noSignals(), single_sample: 4 })).toBe('Single-sample groups')
    expect(noSignalText(noSignals())).toBe('None completed')
  })
})
