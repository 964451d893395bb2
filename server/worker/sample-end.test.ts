import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import type { RewardOutcome } from '../rewards/managers/manager.ts'
import type { AttemptRecord } from '../router/router-types.ts'
import { afterCalls, checkedParts, recalledCalls, sampleEndOf } from './sample-end.ts'

const times = { acceptedAtMs: 1_000, dispatchedAtMs: 1_250, scoreMs: 40, clockOffsetMs: 0 }
const reward = { onFailure: { policy: 'null' } } as ResolvedReward

const attempt = (fields: Partial<AttemptRecord> = {}): AttemptRecord => ({
  serverId: 3,
  serverName: 'rm-0',
  attempt: 1,
  startedAtMs: 1_250,
  queueMs: 0,
  backoffMs: 0,
  serviceMs: 5,
  outcome: 'ok',
  reason: null,
  status: 200,
  detail: null,
  ...fields,
})
const endOf = (outcome: RewardOutcome) => sampleEndOf(outcome, reward, times)
const failed = (attempts: AttemptRecord[] | null): RewardOutcome => ({
  ok: false,
  reason: 'unparseable',
  detail: 'no [[n]] in the reply',
  attempts,
})

test('attempts are 1 plus the retries, however many calls the reward makes', () => {
  const attemptsOf = (attempts: AttemptRecord[]) =>
    endOf({ ok: true, score: 1, extra: null, attempts }).attempts
  // Three votes of a judge, or three components.
  expect(attemptsOf([attempt(), attempt(), attempt()])).toBe(1)
  const retry = attempt({ attempt: 2 })
  expect(attemptsOf([attempt({ outcome: 'fault' }), attempt(), retry])).toBe(2)
  const hedge = attempt({ attempt: 2, hedgeOf: 1 })
  const recalled = attempt({ attempt: 2, outcome: 'recalled' })
  expect(attemptsOf([attempt({ outcome: 'fault' }), retry, hedge, recalled])).toBe(2)
})

test('a dispatch that another clock dates before the acceptance has no queue time', () => {
  const outcome: RewardOutcome = { ok: true, score: 1, extra: null, attempts: null }
  expect(sampleEndOf(outcome, reward, { ...times, dispatchedAtMs: 990 })).toMatchObject({
    queueMs: 0,
    dispatchedAtMs: 1_000,
  })
})

test('calls that were recalled are in the log, and are not retries', () => {
  const cut = attempt({ outcome: 'client', reason: 'cancelled', status: null })
  const earlier = recalledCalls(failed([attempt({ outcome: 'fault', reason: 'transport' }), cut]))
  const again = afterCalls(earlier, { ok: true, score: 1, extra: null, attempts: [attempt()] })
  const end = endOf(again)
  expect(end.attempts).toBe(1)
  expect(end.attemptLog?.map(({ outcome, reason }) => [outcome, reason])).toEqual([
    ['fault', 'transport'],
    ['recalled', null],
    ['ok', null],
  ])
  const unchanged = failed([attempt()])
  expect(afterCalls([], unchanged)).toBe(unchanged)
})

test('a sample whose rewards do not fit its response fails, and keeps the log of its calls', () => {
  const turns = [{ message: 1, score: 1 }]
  const outcome = {
    ...{ ok: true, score: 1, extra: null, attempts: [attempt()] },
    rewards: { turns, spans: [] },
  } satisfies RewardOutcome
  const twoMessages = [{ content: 'a' }, { content: 'b' }]
  expect(checkedParts(outcome, () => twoMessages)).toBe(outcome)
  const refused = checkedParts(outcome, () => 'one message')
  expect(endOf(refused)).toMatchObject({
    ...{ score: null, reason: 'function_error', serverName: 'rm-0', attempts: 1 },
    attemptLog: [
      { serverId: 3, outcome: 'ok' },
      { detail: expect.stringMatching(/^its rewards refer to message 1,/) },
    ],
  })
})

describe('the log of a sample’s attempts', () => {
  test('of a scored sample exists if there were several attempts', () => {
    const ok = (attempts: AttemptRecord[] | null) =>
      endOf({ ok: true, score: 1, extra: null, attempts }).attemptLog
    expect(ok(null)).toBeNull()
    expect(ok([attempt()])).toBeNull()
    expect(ok([attempt(), attempt()])).toHaveLength(2)
  })

  test('of a failed sample has the reason, even if every call was answered', () => {
    const why = { serverId: null, reason: 'unparseable', detail: 'no [[n]] in the reply' }
    expect(endOf(failed(null)).attemptLog).toMatchObject([{ ...why, attempt: 1 }])
    const answered = endOf(failed([attempt()]))
    expect(answered.attemptLog).toMatchObject([{ serverId: 3 }, { ...why, attempt: 2 }])
    expect(answered).toMatchObject({ attempts: 1, serverName: 'rm-0' })
  })

  test('of a sample that failed with the reason of a call is the list of calls', () => {
    const failedCall = attempt({ outcome: 'corrupt', reason: 'unparseable', detail: '<html>' })
    expect(endOf(failed([attempt(), failedCall])).attemptLog).toEqual([attempt(), failedCall])
  })
})
