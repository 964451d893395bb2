import type { PlannerInput, TypedReward } from '../../server/contract/planner.ts'
import { readNumber } from '../format/numbers.ts'
import type { PlannerDraft } from './planner-url.ts'

export type PlannerErrors = Partial<Record<keyof PlannerDraft, string>>

/** The form as a request, or its errors. `input` is null if there are errors or no batch or run is selected. */
interface PlannerRequest {
  input: PlannerInput | null
  errors: PlannerErrors
}

/** Parses the form. The service enforces size limits; its error is shown in place of the plan. */
export function requestOf(draft: PlannerDraft): PlannerRequest {
  const errors: PlannerErrors = {}
  const seconds = (key: keyof PlannerDraft): number => {
    const value = numberOf(draft[key])
    if (value === null || value < 0) errors[key] = 'Enter seconds, such as 40 or 0.02.'
    else if (value > 86_400) errors[key] = 'Enter at most one day.'
    // Values are rounded to 1 µs, so that 0.1 + 0.2 s gives exactly 300 ms.
    return Math.round((value ?? 0) * 1e6) / 1e3
  }
  const count = (key: keyof PlannerDraft, most: number): number => {
    const value = numberOf(draft[key])
    if (value === null || !Number.isInteger(value) || value < 1 || value > most) {
      errors[key] = `Enter a whole number from 1 to ${most.toLocaleString('en-US')}.`
    }
    return value ?? 1
  }
  // If these fields are empty, the service derives them from the recorded batch or run.
  const isDerived = (key: 'rollout' | 'logprob' | 'update' | 'limits') =>
    draft.source !== 'typed' && draft[key].trim() === ''
  const phase = (key: 'rollout' | 'logprob' | 'update') =>
    isDerived(key) ? undefined : seconds(key)
  const phases = {
    rolloutMs: phase('rollout'),
    logProbMs: phase('logprob'),
    updateMs: phase('update'),
  }
  const steps = count('steps', 32)
  const miniBatches = count('mini', 256)
  const limits = isDerived('limits') ? undefined : listOf(draft.limits, true)
  if (limits === null)
    errors.limits = 'Enter up to six whole numbers or "none", such as 64, 256, none.'
  const servers = listOf(draft.servers, false)
  if (servers === null) errors.servers = 'Enter up to six whole numbers, such as 1, 2, 4.'

  let source: PlannerInput['source'] | null = null
  if (draft.source === 'batch') {
    const id = draft.batch.trim().replace(/^(?=\d)/, 'b')
    if (/^b\d{1,18}$/.test(id)) source = { kind: 'batch', batchId: id }
    else if (id !== '') errors.batch = 'Enter a batch ID, such as b12.'
  } else if (draft.source === 'run') {
    if (draft.run !== '') source = { kind: 'run', run: draft.run }
  } else {
    const failed = numberOf(draft.failed)
    if (failed === null || failed < 0 || failed > 95)
      errors.failed = 'Enter a percentage from 0 to 95.'
    source = {
      kind: 'typed',
      prompts: count('prompts', 65_536),
      groupSize: count('group', 1_024),
      reward: rewardOf(draft, seconds, errors),
      failedShare: (failed ?? 0) / 100,
      maxAttempts: 4,
      seed: 1,
    }
  }
  if (Object.keys(errors).length > 0 || source === null) return { input: null, errors }
  const columns = { ...(limits && { limits }), servers: servers ?? [1] }
  const show = shownOf(draft.show, columns)
  return {
    input: { source, phases, steps, miniBatches, ...columns, ...(show === null ? {} : { show }) },
    errors,
  }
}

function rewardOf(
  draft: PlannerDraft,
  seconds: (key: keyof PlannerDraft) => number,
  errors: PlannerErrors,
): TypedReward {
  if (draft.spread === 'constant') return { kind: 'constant', ms: seconds('first') }
  if (draft.spread === 'lognormal') {
    const sigma = numberOf(draft.second)
    if (sigma === null || sigma < 0 || sigma > 3) errors.second = 'Enter a number from 0 to 3.'
    return { kind: 'lognormal', medianMs: seconds('first'), sigma: sigma ?? 0 }
  }
  const fromMs = seconds('first')
  const toMs = seconds('second')
  if (errors.second === undefined && toMs < fromMs)
    errors.second = 'Enter a value at or above the first.'
  return { kind: 'uniform', fromMs, toMs }
}

/** A combination of limit and servers as a URL value, such as `256x1`. */
export function showKey(limit: number | null, servers: number): string {
  return `${limit ?? 'none'}x${servers}`
}

function shownOf(
  text: string,
  { limits, servers }: { limits?: (number | null)[]; servers: number[] },
): { limit: number | null; servers: number } | null {
  const [, limit, n] = /^(none|[1-9]\d{0,5})x(\d+)$/.exec(text) ?? []
  if (limit === undefined) return null
  const show = { limit: limit === 'none' ? null : Number(limit), servers: Number(n) }
  // The limits that the service derives are not known here. If the selected limit is not among them, the service draws
  // the first derived limit.
  const isPlanned = limits === undefined || limits.includes(show.limit)
  return isPlanned && servers.includes(show.servers) ? show : null
}

function numberOf(text: string): number | null {
  const value = readNumber(text)
  return Number.isNaN(value) ? null : value
}

function listOf(text: string, orNone: false): number[] | null
function listOf(text: string, orNone: true): (number | null)[] | null
function listOf(text: string, orNone: boolean): (number | null)[] | null {
  const values = text
    .split(/[\s,;]+/)
    .filter((part) => part !== '')
    .map((part) => (orNone && /^none$/i.test(part) ? null : Number(part)))
  const isRight = values.every(
    (value) => value === null || (Number.isInteger(value) && value >= 1 && value <= 10_000),
  )
  const distinct = [...new Set(values)]
  return isRight && distinct.length >= 1 && distinct.length <= 6 ? distinct : null
}
