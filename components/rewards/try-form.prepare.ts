import type { SampleDetailDto } from '../../server/contract/pages.ts'

export interface TryDraft {
  dataSource: string
  /** Text, or messages as JSON. */
  prompt: string
  response: string
  /** Text, or JSON if it starts like an object, a list or a quoted string. */
  groundTruth: string
  /** Number of response tokens; empty if unknown. */
  responseLength: string
  /** A JSON object, or empty. */
  extraInfo: string
  /** `rule:gsm8k`, `model:my-rm`, `judge:my-judge`, or empty for the rule of the data source. */
  scorer: string
  judge: string
  manager: string
  /** A JSON object, or empty. */
  kwargs: string
  /** The whole reward as JSON, which replaces the fields above; null if the fields apply. */
  reward: string | null
}

export const EMPTY_TRY: TryDraft = {
  dataSource: '',
  prompt: '',
  response: '',
  groundTruth: '',
  responseLength: '',
  extraInfo: '',
  scorer: '',
  judge: 'rating-1-10',
  manager: 'naive',
  kwargs: '',
  reward: null,
}

export type TryErrors = Partial<Record<keyof TryDraft, string>>

interface TryCall {
  sample: {
    dataSource: string
    prompt: string | { role: string; content?: string | null }[]
    response: string
    groundTruth?: unknown
    extraInfo?: Record<string, unknown>
    responseLength?: number
  }
  reward: Record<string, unknown>
}

export function prepareTry(draft: TryDraft): { call: TryCall } | { errors: TryErrors } {
  const errors: TryErrors = {}
  const groundTruth = looksLikeJson(draft.groundTruth)
    ? parsed(draft.groundTruth, 'groundTruth', errors)
    : draft.groundTruth
  const prompt = /^\s*\[/.test(draft.prompt) ? messagesOf(draft.prompt) : null
  const extraInfo = objectOf(draft.extraInfo, 'extraInfo', errors)
  const length = draft.responseLength.trim()
  if (length !== '' && !/^\d{1,9}$/.test(length)) {
    errors.responseLength = 'Enter a whole number of tokens, or leave it empty.'
  }
  const reward = rewardOf(draft, errors)
  if (Object.keys(errors).length > 0) return { errors }
  return {
    call: {
      sample: {
        dataSource: draft.dataSource.trim(),
        prompt: prompt ?? draft.prompt,
        response: draft.response,
        ...(draft.groundTruth === '' ? {} : { groundTruth }),
        ...(extraInfo === null ? {} : { extraInfo }),
        ...(length === '' ? {} : { responseLength: Number(length) }),
      },
      reward,
    },
  }
}

export function rewardOf(draft: TryDraft, errors: TryErrors = {}): Record<string, unknown> {
  if (draft.reward !== null) return objectOf(draft.reward, 'reward', errors) ?? {}
  const [kind, name] = splitScorer(draft.scorer)
  const kwargs = objectOf(draft.kwargs, 'kwargs', errors)
  return {
    ...(draft.manager === 'naive' ? {} : { manager: draft.manager }),
    ...(kind === 'rule' ? { function: { name } } : {}),
    ...(kind === 'model' ? { model: name } : {}),
    ...(kind === 'judge' ? { model: name, judge: draft.judge } : {}),
    ...(kwargs === null ? {} : { kwargs }),
  }
}

function splitScorer(scorer: string): [kind: string, name: string] {
  const at = scorer.indexOf(':')
  return at < 0 ? ['', ''] : [scorer.slice(0, at), scorer.slice(at + 1)]
}

/** The fields for a reward; a reward that the fields cannot express stays JSON. */
export function draftOfReward(
  json: string,
  generative: (model: string) => boolean,
): Pick<TryDraft, 'scorer' | 'judge' | 'manager' | 'kwargs' | 'reward'> {
  const { scorer, judge, manager, kwargs } = EMPTY_TRY
  const whole = { scorer, judge, manager, kwargs, reward: indented(json) }
  let spec: unknown
  try {
    spec = JSON.parse(json)
  } catch {
    return whole
  }
  if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) return whole
  const given = spec as Record<string, unknown>
  const { model, function: fn } = given
  const byName =
    typeof fn === 'object' && fn !== null && Object.keys(fn).join() === 'name'
      ? (fn as { name: unknown }).name
      : null
  const draft: TryDraft = {
    ...EMPTY_TRY,
    manager: typeof given.manager === 'string' ? given.manager : manager,
    judge: typeof given.judge === 'string' ? given.judge : judge,
    kwargs: given.kwargs === undefined ? '' : JSON.stringify(given.kwargs),
    scorer:
      typeof model === 'string'
        ? `${generative(model) ? 'judge' : 'model'}:${model}`
        : typeof byName === 'string'
          ? `rule:${byName}`
          : '',
  }
  const fieldsReward = JSON.stringify(sorted(rewardOf(draft)))
  if (fieldsReward !== JSON.stringify(sorted(given))) return whole
  return {
    scorer: draft.scorer,
    judge: draft.judge,
    manager: draft.manager,
    kwargs: draft.kwargs,
    reward: null,
  }
}

/** The fields for a stored sample; null if retention removed its texts. */
export function draftOfSample(
  sample: Pick<
    SampleDetailDto,
    'dataSource' | 'prompt' | 'response' | 'responseLength' | 'textsRemovedAt'
  > & {
    groundTruth?: unknown
    extraInfo: Record<string, unknown>
  },
): Pick<
  TryDraft,
  'dataSource' | 'prompt' | 'response' | 'groundTruth' | 'responseLength' | 'extraInfo'
> | null {
  if (sample.textsRemovedAt !== null) return null
  const { dataSource, prompt, response, groundTruth, extraInfo, responseLength } = sample
  const isNone = groundTruth === null || groundTruth === undefined
  const isText = typeof groundTruth === 'string' && !looksLikeJson(groundTruth)
  return {
    dataSource,
    prompt: typeof prompt === 'string' ? prompt : JSON.stringify(prompt, null, 2),
    response,
    groundTruth: isNone ? '' : isText ? groundTruth : JSON.stringify(groundTruth),
    responseLength: responseLength === null ? '' : String(responseLength),
    extraInfo: Object.keys(extraInfo).length === 0 ? '' : JSON.stringify(extraInfo, null, 2),
  }
}

/** Whether a text starts like a JSON object, list or string. `[0, 1)` and `{1, 2}` are answers and stay text. */
function looksLikeJson(text: string): boolean {
  return /^\s*(?:\{\s*"|\{\s*\}|\[\s*["[{]|")/.test(text)
}

function messagesOf(text: string): { role: string; content?: string | null }[] | null {
  try {
    const value: unknown = JSON.parse(text)
    const isMessages =
      Array.isArray(value) &&
      value.length > 0 &&
      value.every((turn) => typeof turn === 'object' && turn !== null && 'role' in turn)
    return isMessages ? value : null
  } catch {
    return null
  }
}

function parsed(text: string, field: keyof TryDraft, errors: TryErrors): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    errors[field] = `Invalid JSON: ${(error as Error).message}.`
    return null
  }
}

function objectOf(
  text: string,
  field: keyof TryDraft,
  errors: TryErrors,
): Record<string, unknown> | null {
  if (text.trim() === '') return null
  const value = parsed(text, field, errors)
  if (errors[field] !== undefined) return null
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>
  }
  errors[field] = 'Enter a JSON object, such as {"score": 1}.'
  return null
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}

function sorted(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => a.localeCompare(b)))
}
