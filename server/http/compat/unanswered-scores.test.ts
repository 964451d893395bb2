import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { sample } from '../../../testkit/service/rollouts.ts'
import { ScoreInput, type ScoreResult } from '../../contract/trainer.ts'
import { type StartedScore, UnansweredScores } from './unanswered-scores.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const input = () => ScoreInput.parse({ run: 'r', step: 1, sample: sample() })
const started = (result: Promise<Partial<ScoreResult>>): StartedScore => ({
  input: input(),
  result: result as Promise<ScoreResult>,
  abandon: new AbortController(),
})

it('each kept score is used once, the oldest first', () => {
  const scores = new UnansweredScores()
  const [one, two] = [started(new Promise(() => {})), started(new Promise(() => {}))]
  scores.keep(one)
  scores.keep(two)
  expect(scores.take(input())?.result).toBe(one.result)
  expect(scores.take(input())?.result).toBe(two.result)
  expect(scores.take(input())).toBeUndefined()
})

it('a failed sample is not kept, even if a failure policy gave it a score', async () => {
  const scores = new UnansweredScores()
  scores.keep(started(Promise.resolve({ status: 'failed', score: 0.5 })))
  scores.keep(started(Promise.reject(new Error('no score'))))
  await vi.advanceTimersByTimeAsync(1)
  expect(scores.take(input())).toBeUndefined()
})

it('a score that no request takes within a minute is abandoned, without another request', async () => {
  const scores = new UnansweredScores()
  const pending = started(new Promise(() => {}))
  scores.keep(pending)
  await vi.advanceTimersByTimeAsync(50_000)
  expect(pending.abandon.signal.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(30_000)
  expect(pending.abandon.signal.aborted).toBe(true)
  expect(scores.take(input())).toBeUndefined()
})

it('the oldest scores are abandoned first if there are too many', () => {
  const scores = new UnansweredScores()
  const all = Array.from({ length: 4_100 }, () => started(new Promise(() => {})))
  for (const one of all) scores.keep(one)
  expect(all.filter(({ abandon }) => abandon.signal.aborted)).toEqual(all.slice(0, 4))
})
