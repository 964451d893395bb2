import { describe, expect, test } from 'vitest'
import { describeFailure } from '../api/failure.ts'
import { EMPTY_DRAFT, placeFailure, prepareRegister } from './register-form.prepare.ts'

const refusal = (reason: string, message: string, hint = '') =>
  placeFailure(
    describeFailure(Object.assign(new Error(message), { data: { reason, hint, httpStatus: 422 } })),
  )

describe('the registration form', () => {
  test('says what is missing before anything is sent', () => {
    expect(prepareRegister(EMPTY_DRAFT)).toEqual({
      errors: { name: expect.any(String), url: expect.any(String) },
    })
    expect(
      prepareRegister({ ...EMPTY_DRAFT, name: 'a b', url: 'x', maxInFlight: '0', weight: '-1' }),
    ).toEqual({
      errors: {
        name: expect.any(String),
        maxInFlight: expect.any(String),
        weight: expect.any(String),
      },
    })
  })

  test('sends what was typed, and leaves out what was not', () => {
    expect(prepareRegister({ ...EMPTY_DRAFT, name: ' rm-1 ', url: ' http://h:1 ' })).toEqual({
      input: { name: 'rm-1', url: 'http://h:1', engine: 'auto', ifUnreachable: 'refuse' },
    })
    expect(
      prepareRegister({
        ...EMPTY_DRAFT,
        name: 'rm',
        url: 'u',
        maxInFlight: '64',
        weight: '2.5',
        tags: 'a, b,',
        model: 'm',
        ifUnreachable: 'keep',
      }),
    ).toMatchObject({
      input: { maxInFlight: 64, weight: 2.5, tags: ['a', 'b'], model: 'm', ifUnreachable: 'keep' },
    })
  })

  test('a refusal is shown at the field it is about', () => {
    expect(refusal('server_unreachable', 'connect ECONNREFUSED', 'Start the server.')).toEqual({
      url: 'Connect ECONNREFUSED. Start the server.',
    })
    expect(refusal('server_not_recognised', 'not one of ours.')).toEqual({
      engine: 'Not one of ours.',
    })
    expect(refusal('model_not_served', 'serves m2')).toEqual({ model: 'Serves m2.' })
    expect(refusal('invalid_input', 'name: too long', 'Correct it.')).toEqual({
      name: 'Too long. Correct it.',
    })
    expect(refusal('busy', 'try later')).toEqual({ form: 'Try later.' })
  })
})
