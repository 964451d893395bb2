import { expect } from 'vitest'
import type { ErrorData, ErrorReason } from '../../server/contract/error-reasons.ts'
import type { RawAnswer } from '../processes/trpc-call.ts'
import type { Service } from './service.ts'
import { waitFor } from './wait-for.ts'

export interface Refusal {
  status: number
  reason: ErrorReason
  /** Expected part of the message, such as the field's path or the known names. */
  message: RegExp | string
  hint?: RegExp
}

export function expectRefusal(answer: RawAnswer, refusal: Refusal): ErrorData {
  const error = (answer.json as { error?: { message: string; code: number; data: ErrorData } })
    ?.error
  expect(error, answer.text.slice(0, 500)).toBeDefined()
  const { message, data, code } = error!
  expect({ status: answer.status, reason: data.reason }, message).toEqual({
    status: refusal.status,
    reason: refusal.reason,
  })
  if (typeof refusal.message === 'string') expect(message).toContain(refusal.message)
  else expect(message).toMatch(refusal.message)
  expect(message.length).toBeLessThan(2_000)
  expect(data.hint).toMatch(refusal.hint ?? /\w+ \w+ \w+/)
  expect(data.httpStatus).toBe(answer.status)
  expect(typeof data.code).toBe('string')
  expect(Number.isInteger(code)).toBe(true)
  expect(data.requestId).toBe(answer.headers['x-request-id'])
  expect(data.requestId).toMatch(/^[\w.-]{1,64}$/)
  expect(answer.headers['content-type']).toMatch(/^application\/json/)
  expect(answer.text, 'the answer has no stack and no source path').not.toMatch(
    /node_modules|\.ts:\d|"stack"/,
  )
  return data
}

/** Query for row counts by table. Of the queue, only unprocessed jobs count. */
const COUNTS = `select
  (select count(*)::int from run) as run,
  (select count(*)::int from batch) as batch,
  (select count(*)::int from sample_group) as sample_group,
  (select coalesce(sum(received), 0)::int from sample_group) as received,
  (select count(*)::int from sample) as sample,
  (select count(*)::int from sample_text) as sample_text,
  (select count(*)::int from image) as image,
  (select count(*)::int from batch_image) as batch_image,
  (select count(*)::int from score_key) as score_key,
  (select count(*)::int from attempt) as attempt,
  (select count(*)::int from server where removed_at is null) as server,
  (select count(*)::int from server_event) as server_event,
  (select count(*)::int from pool) as pool,
  (select count(*)::int from pgboss.queue) as queue,
  (select count(*)::int from pgboss.job where state < 'completed') as job`

export async function nothingStored<T>(service: Service, act: () => Promise<T>): Promise<T> {
  const count = async () => (await service.sql<Record<string, number>>(COUNTS))[0]!
  const before = await waitFor('an empty queue', async () => {
    const counts = await count()
    return counts.job === 0 && counts
  })
  const result = await act()
  expect(await count()).toEqual(before)
  return result
}
