import type { RegisterServerInput } from '../../server/wire/servers.ts'
import type { Failure } from '../api/failure.ts'

/** What the registration form holds: texts as typed. */
export interface RegisterDraft {
  name: string
  url: string
  engine: RegisterServerInput['engine']
  model: string
  maxInFlight: string
  weight: string
  apiKey: string
  tags: string
  ifUnreachable: 'refuse' | 'keep'
}

export const EMPTY_DRAFT: RegisterDraft = {
  name: '',
  url: '',
  engine: 'auto',
  model: '',
  maxInFlight: '',
  weight: '',
  apiKey: '',
  tags: '',
  ifUnreachable: 'refuse',
}

/** A field of the form, or the form as a whole. */
export type FormField = keyof RegisterDraft | 'form'

/** A message at the field it is about. */
export type FieldErrors = Partial<Record<FormField, string>>

/** The input of `servers.register`, or what is wrong before anything is sent. */
export function prepareRegister(
  draft: RegisterDraft,
):
  | { input: Partial<RegisterServerInput> & { name: string; url: string } }
  | { errors: FieldErrors } {
  const errors: FieldErrors = {}
  const name = draft.name.trim()
  const url = draft.url.trim()
  if (name === '') errors.name = 'Give it a name; it is shown on every page.'
  else if (!/^[\w.:-]+$/.test(name)) errors.name = 'Letters, digits, “.”, “_”, “:” and “-” only.'
  if (url === '') errors.url = 'Give the address of its root, such as http://10.0.0.5:8000.'
  const maxInFlight = draft.maxInFlight.trim()
  if (maxInFlight !== '' && !/^[1-9]\d{0,5}$/.test(maxInFlight)) {
    errors.maxInFlight = 'A whole number from 1 to 100,000.'
  }
  const weight = draft.weight.trim()
  if (weight !== '' && !(Number(weight) > 0 && Number(weight) <= 1000)) {
    errors.weight = 'A number above 0, up to 1,000.'
  }
  if (Object.keys(errors).length > 0) return { errors }
  const tags = draft.tags
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
  return {
    input: {
      name,
      url,
      engine: draft.engine,
      ifUnreachable: draft.ifUnreachable,
      ...(draft.model.trim() === '' ? {} : { model: draft.model.trim() }),
      ...(maxInFlight === '' ? {} : { maxInFlight: Number(maxInFlight) }),
      ...(weight === '' ? {} : { weight: Number(weight) }),
      ...(draft.apiKey === '' ? {} : { apiKey: draft.apiKey }),
      ...(tags.length === 0 ? {} : { tags }),
    },
  }
}

const FIELD_OF_REASON: Partial<Record<Failure['reason'], FormField>> = {
  server_unreachable: 'url',
  server_redirects: 'url',
  forbidden_url: 'url',
  server_not_recognised: 'engine',
  model_not_served: 'model',
}

/** Puts the service's refusal at the field it is about: by its reason, else by the path its message names. */
export function placeFailure(failure: Failure): FieldErrors {
  const named = /^(\w+)(?:\[\d+\])?:/.exec(failure.message)?.[1]
  const field =
    FIELD_OF_REASON[failure.reason] ??
    (named !== undefined && named in EMPTY_DRAFT ? (named as FormField) : 'form')
  const said = failure.message.replace(/^(\w+)(?:\[\d+\])?:\s*/, (whole, path) =>
    path === field ? '' : whole,
  )
  return { [field]: failure.hint ? `${sentence(said)} ${failure.hint}` : sentence(said) }
}

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(capital) ? capital : `${capital}.`
}
