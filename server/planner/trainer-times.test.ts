import { expect, test } from 'vitest'
import { trainerTimes } from './trainer-times.ts'

const record = { recordedStepMs: 420_000, recordedWaitMs: 26_500 }
const none = { recordedStepMs: null, recordedWaitMs: 26_500 }

test('splits the recorded step time without the reward wait', () => {
  expect(trainerTimes({}, record)).toEqual({
    phases: { rolloutMs: 77_500, logProbMs: 83_400, updateMs: 232_600 },
    phasesFrom: 'record',
  })
  expect(trainerTimes({}, { recordedStepMs: 2_230, recordedWaitMs: 200 })).toEqual({
    phases: { rolloutMs: 400, logProbMs: 430, updateMs: 1_200 },
    phasesFrom: 'record',
  })
})

test('keeps given times', () => {
  const given = { rolloutMs: 1, logProbMs: 0, updateMs: 2 }
  expect(trainerTimes(given, record)).toEqual({ phases: given, phasesFrom: 'input' })
  expect(trainerTimes({ rolloutMs: 230_500 }, record)).toEqual({
    phases: { rolloutMs: 230_500, logProbMs: 43_000, updateMs: 120_000 },
    phasesFrom: 'record',
  })
  expect(trainerTimes({ updateMs: 500_000 }, record).phases).toEqual({
    ...{ rolloutMs: 0, logProbMs: 0, updateMs: 500_000 },
  })
})

test('assumes the times of the experiment where the record does not show them', () => {
  const phases = { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 }
  expect(trainerTimes({}, none)).toEqual({ phases, phasesFrom: 'assumption' })
  expect(trainerTimes({}, { recordedStepMs: 20, recordedWaitMs: 30 })).toEqual({
    ...{ phases, phasesFrom: 'assumption' },
  })
  expect(trainerTimes({ updateMs: 5 }, none)).toEqual({
    ...{ phases: { ...phases, updateMs: 5 }, phasesFrom: 'assumption' },
  })
})
