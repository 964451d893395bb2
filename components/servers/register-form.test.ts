import { describe, expect, test } from 'vitest'
import { ERROR_REASONS } from '../../server/contract/error-reasons.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { describeFailure } from '../api/failure.ts'
import {
  type EditDraft,
  EMPTY_DRAFT,
  editDraft,
  placeFailure,
  prepareRegister,
  prepareUpdate,
} from './register-form.prepare.ts'

const refusal = (
  reason: string,
  message: string,
  hint = '',
  form: 'register' | 'edit' = 'register',
) =>
  placeFailure(
    describeFailure(Object.assign(new Error(message), { data: { reason, hint, httpStatus: 422 } })),
    form,
  )

describe('chat template', () => {
  test('is sent as pasted', () => {
    const draft = { ...EMPTY_DRAFT, name: 'rm', url: 'u', chatTemplate: '{{ messages }}\n' }
    expect(prepareRegister(draft)).toMatchObject({ input: { chatTemplate: '{{ messages }}\n' } })
    expect(prepareRegister({ ...draft, kind: 'generative' })).toEqual({
      input: expect.not.objectContaining({ chatTemplate: expect.anything() }),
    })
    expect(prepareRegister({ ...draft, chatTemplate: ' ' })).toEqual({
      input: expect.not.objectContaining({ chatTemplate: expect.anything() }),
    })
  })

  test('shows its errors at its field', () => {
    expect(refusal('invalid_input', 'chatTemplate: it cannot be read: unclosed.')).toEqual({
      chatTemplate: 'It cannot be read: unclosed.',
    })
  })
})

describe('registration form', () => {
  test('shows missing fields before sending', () => {
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
    // A comma is read as a decimal point. If it were dropped, 0,5 would become a weight of 5.
    const decimalComma = { ...EMPTY_DRAFT, name: 'a', url: 'http://h:1', weight: '0,5' }
    expect(prepareRegister(decimalComma)).toMatchObject({ input: { weight: 0.5 } })
  })

  test('sends only the fields that were filled in', () => {
    expect(prepareRegister({ ...EMPTY_DRAFT, name: ' rm-1 ', url: ' http://h:1 ' })).toEqual({
      input: {
        ...{ name: 'rm-1', url: 'http://h:1', engine: 'auto', kind: 'discriminative' },
        ifUnreachable: 'refuse',
      },
    })
    expect(
      prepareRegister({
        ...EMPTY_DRAFT,
        name: 'rm',
        url: 'u',
        maxInFlight: '64',
        weight: '2.5',
        rpm: '1,200',
        tpm: '90000',
        kind: 'generative',
        tags: 'a, b,',
        model: 'm',
        ifUnreachable: 'keep',
      }),
    ).toMatchObject({
      input: {
        ...{ maxInFlight: 64, weight: 2.5, rpm: 1_200, tpm: 90_000, kind: 'generative' },
        ...{ tags: ['a', 'b'], model: 'm', ifUnreachable: 'keep' },
      },
    })
  })

  test('shows service errors at their fields', () => {
    expect(refusal('server_unreachable', 'connect ECONNREFUSED', 'Start the server.')).toEqual({
      url: 'Connect ECONNREFUSED. Start the server.',
    })
    expect(refusal('server_not_recognized', 'not one of ours.')).toEqual({
      engine: 'Not one of ours.',
    })
    expect(refusal('model_not_served', 'serves m2')).toEqual({ model: 'Serves m2.' })
    expect(refusal('invalid_input', 'name: too long', 'Correct it.')).toEqual({
      name: 'Too long. Correct it.',
    })
    expect(refusal('key_refused', 'it answered 401', 'Give its key.')).toEqual({
      apiKey: 'It answered 401. Give its key.',
    })
    expect(refusal('busy', 'try later')).toEqual({ form: 'Try later.' })
  })

  test('describes an unreachable server in the words of the form, with the error code once', () => {
    const shown = (hint: string, form: 'register' | 'edit') =>
      refusal(
        'server_unreachable',
        'http://h:1 cannot be reached (ECONNREFUSED: connect ECONNREFUSED 10.0.0.5:1)',
        hint,
        form,
      ).url
    const message = 'http://h:1 cannot be reached (connect ECONNREFUSED 10.0.0.5:1).'
    const { hint } = ERROR_REASONS.server_unreachable
    expect(shown(hint, 'register')).toBe(
      `${message} Start the server and try again, or select “Save and keep probing” while it loads.`,
    )
    expect(shown(hint, 'edit')).toBe(`${message} Start the server and try again.`)
    const loading =
      'Wait until the server has loaded its model, or register it with "ifUnreachable": "keep".'
    expect(shown(loading, 'register')).toMatch(/, or select “Save and keep probing”\.$/)
    expect(shown(loading, 'edit')).toMatch(/loaded its model\.$/)
    expect(shown('Add "engine" (not "auto") and "model".', 'register')).toMatch(
      /Select the engine and enter the model\.$/,
    )
  })
})

describe('edit form', () => {
  const server = {
    ...{ id: 's3', url: 'http://h:1', weight: 1, tags: ['a'], rpm: 600, tpm: null },
    ...{ limit: 24, hasFixedLimit: false },
  } as ServerDto
  const update = (change: Partial<EditDraft>, of = server) =>
    prepareUpdate(of, { ...editDraft(of), ...change })

  test('sends changed fields only, because a new URL or key triggers a probe', () => {
    expect(update({})).toEqual({ input: null })
    expect(update({ rpm: '', maxInFlight: '32', tags: 'a, b' })).toEqual({
      input: { id: 's3', rpm: null, maxInFlight: 32, tags: ['a', 'b'] },
    })
    expect(update({ url: ' http://h:2 ', apiKey: 'k' })).toEqual({
      input: { id: 's3', url: 'http://h:2', apiKey: 'k' },
    })
  })

  test('keeps stored tags that contain commas or outer spaces', () => {
    const tagged = { ...server, tags: ['rack 1, top', ' x', 'y'] }
    expect(update({}, tagged)).toEqual({ input: null })
    const text = editDraft(tagged).tags
    expect(update({ tags: `${text}, z` }, tagged)).toEqual({
      input: { id: 's3', tags: ['rack 1, top', ' x', 'y', 'z'] },
    })
    expect(update({ tags: 'rack 1, y' }, tagged)).toEqual({
      input: { id: 's3', tags: ['rack 1', 'y'] },
    })
  })

  test('changes, removes or keeps the template', () => {
    const template = (chatTemplate: string | null) =>
      prepareUpdate(server, { ...editDraft(server), chatTemplate }, 'before')
    expect(template(null)).toEqual({ input: null })
    expect(template('before\n')).toEqual({ input: null })
    expect(template('after')).toEqual({ input: { id: 's3', chatTemplate: 'after' } })
    expect(template('')).toEqual({ input: { id: 's3', chatTemplate: null } })
  })

  test('leaves an adaptive limit empty, and removes a fixed one', () => {
    expect(editDraft(server).maxInFlight).toBe('')
    const given = { ...server, hasFixedLimit: true }
    expect(editDraft(given).maxInFlight).toBe('24')
    expect(update({ maxInFlight: '' }, given)).toEqual({ input: { id: 's3', maxInFlight: null } })
  })

  test('removes a key, and shows errors', () => {
    expect(update({ removeKey: true })).toEqual({ input: { id: 's3', apiKey: null } })
    expect(update({ url: ' ', tpm: 'many' })).toEqual({
      errors: { url: expect.any(String), tpm: expect.any(String) },
    })
  })
})
