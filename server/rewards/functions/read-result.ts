import { readPartRewards } from '../../contract/part-rewards.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { PartRewards } from '../../contract/trainer.ts'
import type { Verdict } from '../managers/manager.ts'

export type ReadResult =
  | {
      ok: true
      score: number
      extra: Record<string, unknown> | null
      rawScore?: number
      verdict?: Verdict
      rewards?: PartRewards
    }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** The key of a result that holds the verdict and the turn and span rewards. The key does not become extra info. */
export const FINDING_KEY = 'rewardops'

/** Maximum number of characters of a sample's extra info as JSON, which is delivered with the score. */
const MAX_EXTRA_CHARS = 1 << 20

/**
 * Reads the result of a reward function, as verl does. The result must have one of these forms; any other value fails
 * the sample.
 *
 * - a number or a boolean
 * - `{score, …}`: all keys, `score` included, become extra info
 * - `[score, prompt, explanation]`, where `score` has any of the other forms
 * - `{reward_score, reward_extra_info}` of a manager, also in camelCase
 *
 * The key `rewardops` is not extra info. It gives the verdict, and turn and span rewards: `{verdict: "no answer",
 * extracted: null, rewards: {turns: [{message: 2, score: 1}]}}`.
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
      ...findingKey(read),
    }
    return withExtra(read.score, { ...read.extra, ...kept }, read.rawScore)
  }
  // verl stores a plain number in the extra info, as `acc`.
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

export function readGroupResults(
  value: unknown,
  members: number,
  /** Error messages of entries that were rejected promises, by index. Only the members of these entries fail. */
  thrown: ReadonlyMap<number, string> = new Map(),
): { ok: true; results: ReadResult[] } | Extract<ReadResult, { ok: false }> {
  if (!Array.isArray(value)) {
    return failedGroup(`it returned ${describe(value)} for a group, which is not a list of results`)
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
    return { ok: false, reason: 'non_finite', detail: `the function returned ${score}` }
  }
  const raw = rawScore === undefined || !Number.isFinite(rawScore) ? {} : { rawScore }
  if (extra === null) return { ok: true, score, extra, ...raw }
  const { [FINDING_KEY]: given, ...rest } = extra
  const finding = readFinding(given)
  if (!finding.ok) return failed(finding.problem)
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
      ...finding.finding,
    }
  } catch (error) {
    return failed(`its extra info cannot be written as JSON: ${(error as Error).message}`)
  }
}

export interface Finding {
  verdict?: Verdict
  rewards?: PartRewards
}

/** Puts a finding under the key {@link FINDING_KEY}, for managers that wrap the scorer. */
export function findingKey({ verdict, rewards }: Finding): Record<string, object> {
  if (verdict === undefined && rewards === undefined) return {}
  return { [FINDING_KEY]: { ...verdict, ...(rewards && { rewards }) } }
}

/**
 * Reads the value of the key {@link FINDING_KEY}. It uses no schema, because loading zod would add about 70 ms to the
 * start of each function process.
 */
export function readFinding(
  value: unknown,
): { ok: true; finding: Finding } | { ok: false; problem: string } {
  const given = asJson('', value)
  if (given === undefined || given === null) return { ok: true, finding: {} }
  const wrong = (what: string): { ok: false; problem: string } => ({
    ok: false,
    problem: `its "${FINDING_KEY}" is ${describe(value)}, ${what}`,
  })
  const form = 'not {verdict: non-empty text, extracted: text or null, rewards: {turns, spans}}'
  if (typeof given !== 'object') return wrong(form)
  const { verdict, extracted = null, rewards, ...others } = given as Record<string, unknown>
  if (Object.keys(others).length > 0) return wrong(form)
  const finding: Finding = {}
  if (rewards !== undefined && rewards !== null) {
    const read = readPartRewards(rewards)
    if (read === null) {
      return wrong(
        'whose rewards are not {turns: [{message, score}], spans: [{message, start, end, score}]} of numbers',
      )
    }
    finding.rewards = read
    if (verdict === undefined && extracted === null) return { ok: true, finding }
  }
  if (typeof verdict !== 'string' || verdict === '') return wrong(form)
  if (extracted !== null && typeof extracted !== 'string') return wrong(form)
  finding.verdict = { verdict, extracted }
  return { ok: true, finding }
}

/** Converts maps, sets and typed arrays to plain objects and arrays, because JSON.stringify does not. */
function asJson(_key: string, value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries(value)
  if (value instanceof Set) return [...value]
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(value as unknown as ArrayLike<number | bigint>, Number)
  }
  return value
}

function noReward(value: unknown): ReadResult {
  return failed(`it returned ${describe(value)}, which is not a number, {score} or [score, …]`)
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
