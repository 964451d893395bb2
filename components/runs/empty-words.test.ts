import { describe, expect, test } from 'vitest'
import type { RunStepDto } from '../../server/contract/runs.ts'
import { noFailuresText, noSignalsText, noSpreadText } from './empty-words.ts'

const step = (fields: Partial<RunStepDto>) =>
  ({ samples: 32, scored: 0, failed: 0, n: null, groupSignals: null, ...fields }) as RunStepDto
const signals = {
  varied: 4,
  all_correct: 0,
  all_incorrect: 0,
  all_equal: 0,
  single_sample: 0,
  all_failed: 0,
  empty: 0,
}

describe('empty run charts give the reason', () => {
  test('no step has ended', () => {
    const running = [step({ scored: 0 })]
    expect(noSpreadText(running)).toBe('No steps have ended yet')
    expect(noSignalsText(running)).toBe('No groups have been analyzed yet')
    expect(noFailuresText(running)).toBe('No samples are finished yet')
    expect(noFailuresText([])).toBe('No samples are finished yet')
  })

  test('all samples of ended steps failed', () => {
    const failed = [step({ failed: 32, n: 0 }), step({})]
    expect(noSpreadText(failed)).toBe('No score: all 32 samples in 1 ended step failed')
  })

  test('scores were substituted or dropped', () => {
    expect(noSpreadText([step({ failed: 2, scored: 30, n: 0 })])).toMatch(/2 failed, the others/)
  })

  test('no failures in ended steps', () => {
    const fine = [step({ scored: 32, n: 32, groupSignals: signals })]
    expect(noSignalsText(fine)).toBe('None of 4 groups')
    expect(noFailuresText(fine)).toBe('None of 32 finished samples')
  })
})
