import { expect, it } from 'vitest'
import type { Database } from '../store/database.ts'
import { type KeyHolder, lookUpOf } from './key-holder.ts'
import { LoginSessions } from './login-sessions.ts'

it('a session ends when it was not used for the idle time, long before its maximum age', () => {
  const idleMs = 3_600_000
  // The clock of the database, which differs from that of this machine.
  const begun = new Date('2031-01-01')
  let nowMs = begun.getTime()
  const times = { maxAgeMs: 100 * idleMs, idleMs }
  const sessions = new LoginSessions({} as Database, times, () => nowMs)
  const stored = (id: number, cookie: string, last_used_at = begun) => ({
    ...{ id, hash: Buffer.from(lookUpOf(cookie), 'hex'), key_id: 1, configured_hash: null },
    ...{ created_at: begun, last_used_at, address: '127.0.0.1', user_agent: 'browser' },
  })
  const take = (usedAt: Date) =>
    sessions.take([stored(1, 'unused'), stored(2, 'used', usedAt)], () => ({}) as KeyHolder)
  const listed = () => sessions.list(null).map(({ id }) => id)
  take(begun)
  const { ended } = sessions.byCookie('unused')!
  nowMs += idleMs - 1
  take(new Date(nowMs))
  expect(listed()).toEqual(['l2', 'l1'])
  nowMs++
  expect(listed()).toEqual(['l2'])
  expect(sessions.byCookie('unused')).toBeNull()
  expect(sessions.byCookie('used')).toMatchObject({ session: 2 })
  expect(ended.aborted).toBe(false)
  take(new Date(nowMs))
  expect(ended.aborted).toBe(true)
})
