import type { z } from 'zod'
import type {
  RegisterServerInput,
  ServerDto,
  UpdateServerInput,
} from '../../server/contract/servers.ts'
import type { Failure } from '../api/failure.ts'
import { sentence } from '../format/text.ts'

/** The fields shared by both forms, as typed. */
export interface LimitsDraft {
  maxInFlight: string
  weight: string
  rpm: string
  tpm: string
  apiKey: string
  tags: string
}

/** The registration form. */
export interface RegisterDraft extends LimitsDraft {
  name: string
  url: string
  engine: RegisterServerInput['engine']
  kind: RegisterServerInput['kind']
  model: string
  /** Jinja, or a tokenizer_config.json that contains it. */
  chatTemplate: string
  /** Empty: auto-detect. */
  route: NonNullable<RegisterServerInput['route']> | ''
  /** An index or a name; empty: the last label. */
  label: string
  ifUnreachable: 'refuse' | 'keep'
}

/** The edit form; an empty key keeps the current one. */
export interface EditDraft extends LimitsDraft {
  url: string
  removeKey: boolean
  /** The stored template; null until loaded. */
  chatTemplate: string | null
}

const NO_LIMITS: LimitsDraft = {
  maxInFlight: '',
  weight: '',
  rpm: '',
  tpm: '',
  apiKey: '',
  tags: '',
}

export const EMPTY_DRAFT: RegisterDraft = {
  ...NO_LIMITS,
  name: '',
  url: '',
  engine: 'auto',
  kind: 'discriminative',
  model: '',
  chatTemplate: '',
  route: '',
  label: '',
  ifUnreachable: 'refuse',
}

/** A field of the forms, or the form as a whole. */
type FormField = keyof RegisterDraft | 'form'

/** Error messages by field. */
export type FieldErrors = Partial<Record<FormField, string>>

type RegisterInput = Partial<RegisterServerInput> & { name: string; url: string }

/** The input of `servers.register`, or the errors of the form. */
export function prepareRegister(
  draft: RegisterDraft,
): { input: RegisterInput } | { errors: FieldErrors } {
  const errors: FieldErrors = {}
  const name = draft.name.trim()
  if (name === '') errors.name = 'Enter a name.'
  else if (!/^[\w.:-]+$/.test(name))
    errors.name = 'Use only letters, digits, “.”, “_”, “:” and “-”.'
  else if (name.length > 128) errors.name = 'Enter at most 128 characters.'
  const url = draft.url.trim()
  if (url === '') errors.url = 'Enter the root URL, such as http://10.0.0.5:8000.'
  const limits = readLimits(draft, errors)
  if (Object.keys(errors).length > 0) return { errors }
  return {
    input: {
      name,
      url,
      engine: draft.engine,
      kind: draft.kind,
      ifUnreachable: draft.ifUnreachable,
      ...(draft.model.trim() === '' ? {} : { model: draft.model.trim() }),
      ...(limits.maxInFlight === null ? {} : { maxInFlight: limits.maxInFlight }),
      ...(limits.weight === null ? {} : { weight: limits.weight }),
      ...(limits.rpm === null ? {} : { rpm: limits.rpm }),
      ...(limits.tpm === null ? {} : { tpm: limits.tpm }),
      ...(draft.apiKey === '' ? {} : { apiKey: draft.apiKey }),
      ...(limits.tags.length === 0 ? {} : { tags: limits.tags }),
      ...(draft.kind === 'generative' || draft.chatTemplate.trim() === ''
        ? {}
        : { chatTemplate: draft.chatTemplate }),
      ...(draft.kind === 'generative' || draft.route === '' ? {} : { route: draft.route }),
      ...(draft.kind === 'generative' || draft.label.trim() === ''
        ? {}
        : { label: draft.label.trim() }),
    },
  }
}

/** The initial edit form: the current values, except the key. */
export function editDraft(server: ServerDto): EditDraft {
  const text = (n: number | null) => (n === null ? '' : String(n))
  return {
    url: server.url,
    maxInFlight: server.hasFixedLimit ? String(server.limit) : '',
    weight: String(server.weight),
    rpm: text(server.rpm),
    tpm: text(server.tpm),
    apiKey: '',
    removeKey: false,
    chatTemplate: null,
    tags: server.tags.join(', '),
  }
}

/**
 * The input of `servers.update`: changed fields only, because a new address or key triggers a probe; null when
 * nothing changed.
 */
export function prepareUpdate(
  server: ServerDto,
  draft: EditDraft,
  templateBefore: string | null = null,
): { input: z.input<typeof UpdateServerInput> | null } | { errors: FieldErrors } {
  const errors: FieldErrors = {}
  const url = draft.url.trim()
  if (url === '') errors.url = 'Enter the root URL, such as http://10.0.0.5:8000.'
  const { weight, tags, ...limits } = readLimits(draft, errors)
  if (Object.keys(errors).length > 0) return { errors }
  const before = { ...server, maxInFlight: server.hasFixedLimit ? server.limit : null }
  const changes = {
    ...(url === server.url ? {} : { url }),
    ...((weight ?? 1) === server.weight ? {} : { weight: weight ?? 1 }),
    ...Object.fromEntries(
      (['maxInFlight', 'rpm', 'tpm'] as const)
        .filter((key) => limits[key] !== before[key])
        .map((key) => [key, limits[key]]),
    ),
    ...(draft.removeKey ? { apiKey: null } : draft.apiKey === '' ? {} : { apiKey: draft.apiKey }),
    ...(tags.join('\n') === server.tags.join('\n') ? {} : { tags }),
    ...(draft.chatTemplate === null || draft.chatTemplate.trim() === (templateBefore ?? '').trim()
      ? {}
      : { chatTemplate: draft.chatTemplate.trim() === '' ? null : draft.chatTemplate }),
  }
  return { input: Object.keys(changes).length === 0 ? null : { id: server.id, ...changes } }
}

/** Parses numbers and tags; empty ones are null. Adds to `errors`. */
function readLimits(draft: LimitsDraft, errors: FieldErrors) {
  const number = (
    field: 'maxInFlight' | 'weight' | 'rpm' | 'tpm',
    ok: RegExp | number,
    say: string,
  ) => {
    const text = draft[field].trim().replaceAll(',', '')
    if (text === '') return null
    const value = Number(text)
    const fits = typeof ok === 'number' ? value > 0 && value <= ok : ok.test(text)
    if (!fits || !Number.isFinite(value)) errors[field] = say
    return value
  }
  return {
    maxInFlight: number(
      'maxInFlight',
      /^([1-9]\d{0,4}|100000)$/,
      'Enter a whole number from 1 to 100,000.',
    ),
    weight: number('weight', 1000, 'Enter a number above 0, up to 1,000.'),
    rpm: number('rpm', Number.MAX_VALUE, 'Enter a number above 0.'),
    tpm: number('tpm', Number.MAX_VALUE, 'Enter a number above 0.'),
    tags: draft.tags
      .split(',')
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ''),
  }
}

const FIELD_OF_REASON: Partial<Record<Failure['reason'], FormField>> = {
  server_unreachable: 'url',
  server_redirects: 'url',
  forbidden_url: 'url',
  server_not_recognised: 'engine',
  model_not_served: 'model',
  key_refused: 'apiKey',
}

/** Assigns an error of the service to a field: by its reason, otherwise by the path in its message. */
export function placeFailure(failure: Failure): FieldErrors {
  const named = /^(\w+)(?:\[\d+\])?:/.exec(failure.message)?.[1]
  const field =
    FIELD_OF_REASON[failure.reason] ??
    (named !== undefined && named in EMPTY_DRAFT ? (named as FormField) : 'form')
  const message = failure.message.replace(/^(\w+)(?:\[\d+\])?:\s*/, (whole, path) =>
    path === field ? '' : whole,
  )
  return { [field]: failure.hint ? `${sentence(message)} ${failure.hint}` : sentence(message) }
}
