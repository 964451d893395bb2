import type { z } from 'zod'
import { ADAPTIVE_MAX_IN_FLIGHT } from '../../server/contract/adaptive-limit.ts'
import type {
  FilledSettings,
  RegisterServerInput,
  ServerDto,
  UpdateServerInput,
} from '../../server/contract/servers.ts'
import type { Failure } from '../api/failure.ts'
import { readNumber } from '../format/numbers.ts'
import { sentence } from '../format/text.ts'

export interface SettingField<Value = unknown> {
  label: string
  placeholder: string
  hint?: string
  inputMode?: 'numeric' | 'decimal'
  /** The value of an empty field. */
  empty: Value
  /** Parses trimmed text. Returns undefined for invalid text; `wrong` is its error message. */
  read(text: string): Value | undefined
  wrong: string
}

function number(fits: (value: number) => boolean) {
  return (text: string) => {
    const value = readNumber(text)
    return fits(value) ? value : undefined
  }
}

function splitTags(text: string): string[] {
  return text
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
}

/** The tags of an edited field. Stored tags that contain commas stay whole. */
function mergeTags(tags: readonly string[], stored: readonly string[]): string[] {
  const merged = [...tags]
  for (const tag of stored) {
    const parts = splitTags(tag)
    const at = merged.findIndex((_, i) => parts.every((part, k) => merged[i + k] === part))
    if (at >= 0 && parts.length > 0) merged.splice(at, parts.length, tag)
  }
  return merged
}

const rate = {
  placeholder: 'No limit',
  inputMode: 'numeric',
  empty: null,
  read: number((value) => value > 0),
  wrong: 'Enter a number above 0.',
} as const

/** The text fields of the register form and the edit form, in display order. */
export const SETTING_FIELDS = {
  maxInFlight: {
    label: 'Concurrency limit',
    placeholder: 'Adaptive',
    hint: `Maximum number of requests in flight across all workers. Leave empty for an adaptive limit of at most ${ADAPTIVE_MAX_IN_FLIGHT}.`,
    inputMode: 'numeric',
    empty: null,
    read: number((value) => Number.isInteger(value) && value >= 1 && value <= 100_000),
    wrong: 'Enter a whole number from 1 to 100,000.',
  },
  weight: {
    label: 'Weight',
    placeholder: '1',
    hint: 'Capacity relative to the other servers of the pool.',
    inputMode: 'decimal',
    empty: 1,
    read: number((value) => value > 0 && value <= 1_000),
    wrong: 'Enter a number above 0, up to 1,000.',
  },
  rpm: { label: 'Requests per minute', ...rate },
  tpm: { label: 'Tokens per minute', ...rate },
  tags: {
    label: 'Tags',
    placeholder: 'a100, team-b',
    hint: 'Separate with commas.',
    empty: [],
    read: splitTags,
    wrong: '',
  },
} as const satisfies { [field in keyof FilledSettings]?: SettingField<FilledSettings[field]> }

type SettingName = keyof typeof SETTING_FIELDS
const SETTINGS = Object.entries(SETTING_FIELDS) as [SettingName, SettingField][]

export type SettingsDraft = Record<SettingName | 'apiKey', string>

export interface RegisterDraft extends SettingsDraft {
  name: string
  url: string
  engine: RegisterServerInput['engine']
  kind: RegisterServerInput['kind']
  model: string
  /** A Jinja template, or a tokenizer_config.json that contains it. */
  chatTemplate: string
  /** The scoring route; empty auto-detects it. */
  route: NonNullable<RegisterServerInput['route']> | ''
  /** The index or the name of a label; empty selects the last label. */
  label: string
  ifUnreachable: 'refuse' | 'keep'
}

/** The edit form; an empty key keeps the current key. */
export interface EditDraft extends SettingsDraft {
  url: string
  removeKey: boolean
  /** The edited template; null if it is unchanged. */
  chatTemplate: string | null
}

export const EMPTY_DRAFT: RegisterDraft = {
  ...(Object.fromEntries(SETTINGS.map(([field]) => [field, ''])) as Record<SettingName, string>),
  apiKey: '',
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

type FormField = keyof RegisterDraft | 'form'

export type FieldErrors = Partial<Record<FormField, string>>

type RegisterInput = Partial<RegisterServerInput> & { name: string; url: string }

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
  const settings = readSettings(draft, errors)
  if (Object.keys(errors).length > 0) return { errors }
  return {
    input: {
      name,
      url,
      engine: draft.engine,
      kind: draft.kind,
      ifUnreachable: draft.ifUnreachable,
      ...(draft.model.trim() === '' ? {} : { model: draft.model.trim() }),
      ...settings,
      ...(draft.apiKey === '' ? {} : { apiKey: draft.apiKey }),
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
  const before = settingsOf(server)
  const fields = SETTINGS.map(([field]) => [field, fieldText(before[field])])
  return {
    ...(Object.fromEntries(fields) as Record<SettingName, string>),
    url: server.url,
    apiKey: '',
    removeKey: false,
    chatTemplate: null,
  }
}

function fieldText(value: unknown): string {
  return Array.isArray(value) ? value.join(', ') : String(value ?? '')
}

function settingsOf(server: ServerDto): Pick<FilledSettings, SettingName> {
  return { ...server, maxInFlight: server.hasFixedLimit ? server.limit : null }
}

/**
 * The input of `servers.update`. It has only changed fields, because a new URL or key triggers a probe. Null if nothing
 * changed.
 */
export function prepareUpdate(
  server: ServerDto,
  draft: EditDraft,
  templateBefore: string | null = null,
): { input: z.input<typeof UpdateServerInput> | null } | { errors: FieldErrors } {
  const errors: FieldErrors = {}
  const url = draft.url.trim()
  if (url === '') errors.url = 'Enter the root URL, such as http://10.0.0.5:8000.'
  const given = readSettings(draft, errors)
  if (Object.keys(errors).length > 0) return { errors }
  const before = settingsOf(server)
  const tags = given.tags && mergeTags(given.tags, before.tags)
  const settings = SETTINGS.map(
    ([field, { empty }]) => [field, { ...given, tags }[field] ?? empty] as const,
  ).filter(([field]) => draft[field] !== fieldText(before[field]))
  const changes = {
    ...(url === server.url ? {} : { url }),
    ...Object.fromEntries(
      settings.filter(([field, now]) => JSON.stringify(now) !== JSON.stringify(before[field])),
    ),
    ...(draft.removeKey ? { apiKey: null } : draft.apiKey === '' ? {} : { apiKey: draft.apiKey }),
    ...(draft.chatTemplate === null || draft.chatTemplate.trim() === (templateBefore ?? '').trim()
      ? {}
      : { chatTemplate: draft.chatTemplate.trim() === '' ? null : draft.chatTemplate }),
  }
  return { input: Object.keys(changes).length === 0 ? null : { id: server.id, ...changes } }
}

function readSettings(
  draft: SettingsDraft,
  errors: FieldErrors,
): Partial<Pick<FilledSettings, SettingName>> {
  const given: Partial<Record<SettingName, unknown>> = {}
  for (const [field, { read, wrong }] of SETTINGS) {
    const text = draft[field].trim()
    if (text === '') continue
    given[field] = read(text)
    if (given[field] === undefined) errors[field] = wrong
  }
  return given as Partial<Pick<FilledSettings, SettingName>>
}

const FIELD_OF_REASON: Partial<Record<Failure['reason'], FormField>> = {
  server_unreachable: 'url',
  server_redirects: 'url',
  forbidden_url: 'url',
  server_not_recognized: 'engine',
  model_not_served: 'model',
  key_refused: 'apiKey',
}

/** Parts of hints that name fields of the API, each with the words of the register form that replace it. */
const FORM_WORDS = [
  ['register it with "ifUnreachable": "keep"', 'select “Save and keep probing”'],
  ['Add "engine" (not "auto") and "model".', 'Select the engine and enter the model.'],
] as const

/**
 * The hint in the words of a form. The edit form cannot save unreachable servers, so its hint does not offer to keep
 * them.
 */
function formHint(hint: string, form: 'register' | 'edit'): string {
  if (form === 'edit') return hint.replace(/, or register it with "ifUnreachable"[^.]*/, '')
  return FORM_WORDS.reduce((text, [api, words]) => text.replace(api, words), hint)
}

/**
 * Assigns an error of the service to a field of a form: by its reason, otherwise by the path in its message. The form's
 * words replace those of the API in the hint.
 */
export function placeFailure(failure: Failure, form: 'register' | 'edit'): FieldErrors {
  const named = /^(\w+)(?:\[\d+\])?:/.exec(failure.message)?.[1]
  const field =
    FIELD_OF_REASON[failure.reason] ??
    (named !== undefined && named in EMPTY_DRAFT ? (named as FormField) : 'form')
  const message = failure.message
    .replace(/^(\w+)(?:\[\d+\])?:\s*/, (whole, path) => (path === field ? '' : whole))
    // The service writes the error code before the system's message, which already contains the code.
    .replace(/\(([A-Z_]+): (?=[^)]*\b\1\b)/, '(')
  const hint = formHint(failure.hint, form)
  return { [field]: hint ? `${sentence(message)} ${hint}` : sentence(message) }
}
