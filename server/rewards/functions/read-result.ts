import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { Verdict } from '../managers/manager.ts'

/** The reward a function returned, or the problem with it. */
export type ReadResult =
  | {
      ok: true
      score: number
      extra: Record<string, unknown> | null
      rawScore?: number
      verdict?: Verdict
    }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** The key of a result that holds its verdict instead of extra info. */
export const VERDICT_KEY = 'rewardops'

/** Maximum characters of a verdict. */
const MAX_VERDICT_CHARS = 64

/** Maximum characters of a sample's extra info as JSON, because it is delivered with the score. */
const MAX_EXTRA_CHARS = 1 << 20

/**
 * Reads a reward function's result as upstream does: a number (or a boolean), `{score, …}` whose every key is extra
 * info, or `[score, prompt, explanation]`, whose score has one of these two forms. A manager's result `{reward_score,
 * reward_extra_info}`, also in camelCase, is read too. The key `rewardops` gives the verdict: `{verdict: "no answer",
 * extracted: null}`. Any other value is a problem.
 */
export function readResult(value: unknown): ReadResult {
  if (Array.isArray(value)) {
    const [score, prompt, explanation] = value
    if (value.length === 0 || Array.isArray(score)) return noReward(value)
    const read = readResult(score)
    if (!read.ok) return read
    const kept = {
      ...(prompt === undefined ? {} : { prompt }),
      ...(explanation === undefined ? {} : { explanation }),
      ...(read.verdict && { [VERDICT_KEY]: read.verdict }),
    }
    return withExtra(read.score, { ...read.extra, ...kept }, read.rawScore)
  }
  // Upstream keeps a plain number as `acc`.
  if (typeof value === 'number' || typeof value === 'boolean') {
    const score = Number(value)
    return withExtra(score, { acc: score })
  }
  if (typeof value !== 'object' || value === null) return noReward(value)
  const given = value as Record<string, unknown>
  const managed = 'reward_score' in given ? 'reward_score' : 'rewardScore'
  if (managed in given) {
    const extra = given.reward_extra_info ?? given.rewardExtraInfo ?? null
    if (!isScore(given[managed]) || (extra !== null && typeof extra !== 'object')) {
      return noReward(value)
    }
    const raw = given.rawScore
    return withExtra(
      Number(given[managed]),
      extra as Record<string, unknown> | null,
      typeof raw === 'number' ? raw : undefined,
    )
  }
  if (!isScore(given.score)) return noReward(value)
  return withExtra(Number(given.score), given)
}

/** Reads a function's result for a whole group: a list of one result per member, in order. */
export function readGroupResults(
  value: unknown,
  members: number,
  /** Messages of entries that threw, by index: only those members fail. */
  thrown: ReadonlyMap<number, string> = new Map(),
): { ok: true; results: ReadResult[] } | Extract<ReadResult, { ok: false }> {
  if (!Array.isArray(value)) {
    return failedGroup(`it returned ${describe(value)} for a group, which is no list of results`)
  }
  if (value.length === members) {
    const read = (entry: unknown, at: number) => {
      const detail = thrown.get(at)
      return detail === undefined ? readResult(entry) : failed(detail)
    }
    return { ok: true, results: value.map(read) }
  }
  return failedGroup(`it returned ${value.length} results for a group of ${members}`)
}

function failedGroup(detail: string): Extract<ReadResult, { ok: false }> {
  return { ok: false, reason: 'function_error', detail }
}

function isScore(value: unknown): value is number | boolean {
  return typeof value === 'number' || typeof value === 'boolean'
}

function withExtra(
  score: number,
  extra: Record<string, unknown> | null,
  rawScore?: number,
): ReadResult {
  if (!Number.isFinite(score)) {
    return { ok: false, reason: 'non_finite', detail: `the function gave ${score}` }
  }
  const raw = rawScore === undefined || !Number.isFinite(rawScore) ? {} : { rawScore }
  if (extra === null) return { ok: true, score, extra, ...raw }
  const { [VERDICT_KEY]: given, ...rest } = extra
  const verdict = readVerdict(asJson('', given))
  if (verdict === 'invalid') {
    return failed(
      `its "${VERDICT_KEY}" is ${describe(given)}, not {verdict: text of 1 to ${MAX_VERDICT_CHARS} characters, extracted: text or null}`,
    )
  }
  try {
    const json = JSON.stringify(rest, asJson)
    if (json.length > MAX_EXTRA_CHARS) {
      return failed(`its extra info is ${json.length} characters of JSON, over ${MAX_EXTRA_CHARS}`)
    }
    return {
      ok: true,
      score,
      extra: JSON.parse(json) as Record<string, unknown>,
      ...raw,
      ...(verdict && { verdict }),
    }
  } catch (error) {
    return failed(`its extra info cannot be written as JSON: ${(error as Error).message}`)
  }
}

/**
 * Reads the value of the key {@link VERDICT_KEY}; undefined: there is none. It uses no schema, because loading zod would
 * add about 70 ms to the start of each function process.
 */
function readVerdict(given: unknown): Verdict | undefined | 'invalid' {
  if (given === undefined || given === null) return undefined
  if (typeof given !== 'object') return 'invalid'
  const { verdict, extracted = null, ...others } = given as Record<string, unknown>
  if (Object.keys(others).length > 0) return 'invalid'
  if (typeof verdict !== 'string' || verdict === '' || verdict.length > MAX_VERDICT_CHARS)
    return 'invalid'
  if (extracted !== null && typeof extracted !== 'string') return 'invalid'
  return { verdict, extracted }
}

/** Converts maps, sets and typed arrays to plain values, because JSON would leave them empty. */
function asJson(_key: string, value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries(value)
  if (value instanceof Set) return [...value]
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(value as unknown as ArrayLike<number | bigint>, Number)
  }
  return value
}

function noReward(value: unknown): ReadResult {
  return failed(`it returned ${describe(value)}, which is no number, {score} or [score, …]`)
}

function failed(detail: string): ReadResult {
  return { ok: false, reason: 'function_error', detail }
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'string') return `the text ${JSON.stringify(value.slice(0, 60))}`
  if (typeof value !== 'object') return `a ${typeof value}`
  if (Array.isArray(value)) return `a list of ${value.length}`
  const keys = Object.keys(value)
  return keys.length === 0 ? 'an empty object' : `an object with ${keys.slice(0, 8).join(', ')}`
}
