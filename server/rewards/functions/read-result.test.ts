import { describe, expect, it } from 'vitest'
import { readResult } from './read-result.ts'

const verdictOf = (rewardops: unknown) => {
  const read = readResult({ score: 1, rewardops })
  return read.ok ? (read.verdict ?? null) : read.detail
}

describe('the verdict of a result', () => {
  it('is given by the key "rewardops", which is not extra info', () => {
    const verdict = { verdict: 'no answer', extracted: null }
    expect(readResult({ score: 0, length: 3, rewardops: verdict })).toEqual({
      ...{ ok: true, score: 0, extra: { score: 0, length: 3 }, verdict },
    })
    expect(verdictOf({ verdict: 'equal', extracted: '42' })).toEqual({
      ...{ verdict: 'equal', extracted: '42' },
    })
    expect(verdictOf({ verdict: 'no answer' })).toEqual(verdict)
    expect(verdictOf({ verdict: 'no answer', extracted: undefined })).toEqual(verdict)
    expect(verdictOf(new Map([['verdict', 'no answer']]))).toEqual(verdict)
  })

  it('has any length, because it is cut when it is stored', () => {
    const verdict = 'a'.repeat(201)
    expect(verdictOf({ verdict })).toMatchObject({ verdict })
  })

  it('is kept in the form [{score, …}, prompt, explanation]', () => {
    const verdict = { verdict: 'no answer', extracted: null }
    expect(readResult([{ score: 0, length: 3, rewardops: verdict }, 'p', 'why'])).toEqual({
      ...{ ok: true, score: 0, verdict },
      extra: { score: 0, length: 3, prompt: 'p', explanation: 'why' },
    })
    expect(
      readResult([{ reward_score: 0.5, reward_extra_info: { rewardops: verdict }, rawScore: 3 }]),
    ).toEqual({ ok: true, score: 0.5, rawScore: 3, extra: {}, verdict })
  })

  it('is absent without the key, and with null', () => {
    expect(readResult({ score: 0 })).toEqual({ ok: true, score: 0, extra: { score: 0 } })
    expect(verdictOf(null)).toBeNull()
    expect(verdictOf(undefined)).toBeNull()
  })

  it('of another form is an error', () => {
    for (const other of [
      ...['equal', 1, true, [], ['equal'], {}, new Set(['verdict'])],
      ...[{ verdict: '' }, { verdict: 1 }, { verdict: null }],
      ...[
        { verdict: 'equal', extracted: 42 },
        { verdict: 'equal', why: undefined },
      ],
    ]) {
      expect(verdictOf(other)).toContain(
        'not {verdict: non-empty text, extracted: text or null, rewards: {turns, spans}}',
      )
    }
  })
})
