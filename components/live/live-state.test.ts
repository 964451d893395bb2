import { describe, expect, test } from 'vitest'
import { CUT_AFTER_MS, initialLive, type LiveAction, liveReducer, liveWords } from './live-state.ts'

const reached = (...actions: LiveAction[]) => actions.reduce(liveReducer, initialLive)

describe('live stream state', () => {
  test('is open, reconnecting, cut after 10 s, then open again', () => {
    const open = reached({ type: 'link', open: true, at: 0 })
    expect(liveWords(open, 5, 900)).toEqual({ word: 'Live', tone: 'ok', ageMs: null })
    const lost = liveReducer(open, { type: 'link', open: false, at: 1_000 })
    expect(liveWords(lost, 800, 3_000)).toEqual({
      word: 'Reconnecting',
      tone: 'warn',
      ageMs: 2_200,
    })
    const still = liveReducer(lost, { type: 'tick', at: 1_000 + CUT_AFTER_MS - 1 })
    expect(still).toBe(lost)
    const cut = liveReducer(still, { type: 'tick', at: 1_000 + CUT_AFTER_MS })
    expect(liveWords(cut, 800, 61_000)).toEqual({
      word: 'Disconnected',
      tone: 'bad',
      ageMs: 60_200,
    })
    const back = liveReducer(cut, { type: 'link', open: true, at: 70_000 })
    expect(back).toEqual(open)
  })

  test('counts a disconnection from its start, even if it is reported again', () => {
    const lost = reached(
      { type: 'link', open: true, at: 0 },
      { type: 'link', open: false, at: 1_000 },
      { type: 'link', open: false, at: 9_000 },
    )
    expect(lost.lostAt).toBe(1_000)
  })

  test('is connecting and then cut if the stream never opens', () => {
    const first = reached({ type: 'link', open: false, at: 0 })
    expect(liveWords(first, null, 1_000).word).toBe('Connecting')
    expect(liveWords(liveReducer(first, { type: 'tick', at: 11_000 }), null, 11_000).word).toBe(
      'Disconnected',
    )
  })

  test('shows the age of a paused page and counts missed changes', () => {
    const frozen = reached(
      { type: 'link', open: true, at: 0 },
      { type: 'freeze', at: 2_000 },
      { type: 'changes' },
      { type: 'changes' },
      { type: 'freeze', at: 9_000 },
    )
    expect(frozen).toMatchObject({ frozenAt: 2_000, missed: 2 })
    expect(liveWords(frozen, 1_000, 5_000)).toEqual({ word: 'Paused', tone: 'idle', ageMs: 3_000 })
    expect(liveReducer(frozen, { type: 'resume' })).toMatchObject({ frozenAt: null, missed: 0 })
  })

  test('marks data as stale when a refetch fails while the stream is open', () => {
    const open = reached({ type: 'link', open: true, at: 0 })
    expect(liveWords(open, 3_000, 8_000, true)).toEqual({
      word: 'Stale',
      tone: 'bad',
      ageMs: 5_000,
    })
    expect(liveWords(open, 3_000, 8_000, false)).toMatchObject({ word: 'Live', ageMs: null })
  })

  test('returns the same object when nothing changed', () => {
    const open = reached({ type: 'link', open: true, at: 0 })
    expect(liveReducer(open, { type: 'link', open: true, at: 5 })).toBe(open)
    expect(liveReducer(open, { type: 'changes' })).toBe(open)
    expect(liveReducer(open, { type: 'tick', at: 1e9 })).toBe(open)
  })
})
