import { Children } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, test } from 'vitest'
import PageError from '../../app/(shell)/error.tsx'
import { describeFailure, retryDelayMs } from './failure.ts'

const refused = (data: object, message = 'said') => Object.assign(new Error(message), { data })

describe('failures', () => {
  test("have the service's message if the service responded", () => {
    const error = refused(
      { reason: 'batch_not_found', httpStatus: 404, hint: 'Check the batchId.', requestId: 'r1' },
      'No batch b9.',
    )
    expect(describeFailure(error)).toMatchObject({
      title: 'Batch not found',
      message: 'No batch b9.',
      hint: 'Check the batchId.',
      requestId: 'r1',
      retryable: false,
    })
  })

  test('report a missing response without fetch internals', () => {
    const failure = describeFailure(new TypeError('Failed to fetch'))
    expect(failure.reason).toBe('unreachable')
    expect(failure.message).not.toContain('fetch')
  })

  test('are retried after Retry-After, otherwise after 0.4, 0.8 and 1.6 s', () => {
    const busy = refused({ reason: 'busy', httpStatus: 503, retryAfterMs: 1500 })
    expect(retryDelayMs(busy, 0)).toBe(1500)
    const lost = new TypeError('Failed to fetch')
    expect([0, 1, 2, 3].map((failures) => retryDelayMs(lost, failures))).toEqual([
      400,
      800,
      1600,
      null,
    ])
    const wrong = refused({ reason: 'invalid_input', httpStatus: 400 })
    expect(retryDelayMs(wrong, 0)).toBeNull()
    const internal = refused({ reason: 'internal', httpStatus: 500 })
    expect([retryDelayMs(internal, 0), retryDelayMs(internal, 1)]).toEqual([400, null])
  })
})

test('a page that failed to render shows why', () => {
  // The header needs the shell.
  const [, message] = Children.toArray(
    PageError({ error: new Error('no such step'), reset() {} }).props.children,
  )
  expect(renderToStaticMarkup(message)).toContain('no such step')
})
