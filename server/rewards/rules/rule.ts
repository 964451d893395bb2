import { z } from 'zod'
import { plainText } from '../../plain-text.ts'

export interface RuleInput {
  dataSource: string
  /** The response text alone; the prompt is never scored. */
  solutionStr: string
  /** Any JSON value. Each rule accepts one form and throws `RuleInputError` for any other. */
  groundTruth: unknown
  extraInfo: Record<string, unknown>
  /**
   * The batch's kwargs: one object for all samples of a batch, unchanged while they are scored. A rule reads its own
   * keys and ignores the others.
   */
  kwargs: Record<string, unknown>
}

export interface RuleResult {
  score: number
  /**
   * The sample's `rewardExtraInfo`. As in verl's naive manager, it is `{acc: score}` for a rule that returns a
   * plain number, and all values, including `score`, for a rule that returns several.
   */
  extra: Record<string, unknown>
  /** The answer found in the response, as it is compared; null if there is none. */
  extracted: string | null
  /** The reason for the score in a word or two: `equal`, `different`, `no answer`, … */
  reason: string
  /** The reason's class, by which samples are counted; default: `reason`. */
  verdict?: string
}

/**
 * The steps by which a rule scored a sample, for display: computed for one sample on a page, never while a batch is
 * scored. Each form is the response's answer and the ground truth after one step; the last form is compared.
 */
export interface RuleExplanation {
  where: string
  /** The answer as written in the response; null if there is none. */
  found: string | null
  /** The forms, from the written text to the compared form. `response` or `groundTruth` is null if it has no such form. */
  forms: { step: string; response: string | null; groundTruth: string | null }[]
  comparison: string
}

/** The description of a built-in scorer, also for the tables of docs/rewards.md. */
export interface RuleDescription<Options extends z.ZodObject = z.ZodObject> {
  name: string
  title: string
  /** The data sources that select this rule: exact names, or a prefix as in `aime*`. */
  dataSources: readonly string[]
  /** Strict schema of the kwargs. Each has a default and a description in Markdown. */
  kwargs: Options
  /** Cells of the tables, in Markdown, with links relative to docs/. */
  docs: {
    verlFile: string
    groundTruth: string
    score: string
    /** The reasons, and each verdict that differs from its reason. */
    reason: string
    extraInfo: string
  }
}

/** A built-in scorer: pure, synchronous, and linear in the length of the response. */
export interface Rule extends RuleDescription {
  /**
   * @throws RuleInputError if the ground truth or a kwarg is unusable, RuleTimeoutError if the rule exceeds its own
   * deadline; such a sample fails and does not score 0
   */
  score(input: RuleInput): RuleResult
  /** The steps of `score` for the same input. Throws as `score` does. */
  explain(input: RuleInput): RuleExplanation
}

/** A rollout or a kwarg that a rule cannot use: the sample fails and does not score 0. */
export class RuleInputError extends Error {
  override readonly name = 'RuleInputError'
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.hint = hint
  }
}

/** A comparison that exceeded the rule's own deadline: the sample fails with `timeout`. */
export class RuleTimeoutError extends Error {
  override readonly name = 'RuleTimeoutError'
}

/**
 * An option of every rule, so that batches of any data sources accept it. verl's scorers of 2026-01 and 2026-08
 * differ only in `math_dapo`.
 */
export const versionOption = z
  .enum(['2026-01', '2026-08'])
  .default('2026-01')
  .describe('Version of verl whose scores are reproduced: `2026-01` or `2026-08`')

export function defineRule<Options extends z.ZodObject>(
  definition: RuleDescription<Options> & {
    score(input: RuleInput, options: z.output<Options>): RuleResult
    explain(input: RuleInput, options: z.output<Options>): RuleExplanation
  },
): Rule {
  const { score, explain } = definition
  const optionsOf = optionsParser(definition)
  return {
    ...definition,
    score: (input) => score(input, optionsOf(input.kwargs)),
    explain: (input) => explain(input, optionsOf(input.kwargs)),
  }
}

/**
 * Returns a function that parses the kwargs of a rule. The parsed options are cached for the lifetime of the kwargs
 * object: zod runs once per batch, not once per sample. The function throws RuleInputError for an unusable kwarg.
 */
export function optionsParser<Options extends z.ZodObject>({
  name,
  kwargs,
}: RuleDescription<Options>) {
  const parsed = new WeakMap<object, z.output<Options>>()
  return (given: Record<string, unknown>): z.output<Options> => {
    const known = parsed.get(given)
    if (known !== undefined) return known
    const result = kwargs.safeParse(ownKwargs(kwargs, given))
    if (!result.success) {
      const { message, hint } = explainKwargsError(name, kwargs, result.error)
      throw new RuleInputError(message, hint)
    }
    parsed.set(given, result.data)
    return result.data
  }
}

export function ownKwargs(
  options: z.ZodObject,
  given: Record<string, unknown>,
): Record<string, unknown> {
  const own: Record<string, unknown> = {}
  for (const key of Object.keys(options.shape)) {
    if (Object.hasOwn(given, key)) own[key] = given[key]
  }
  return own
}

export function explainKwargsError(
  ruleName: string,
  options: z.ZodObject,
  error: z.ZodError,
): { message: string; hint: string } {
  const issue = error.issues[0]!
  const key = String(issue.path[0] ?? '')
  const option = options.shape[key] as z.ZodType | undefined
  const path = issue.path.join('.')
  return {
    message: `kwarg "${path}" of rule ${ruleName} is not valid: ${issue.message}`,
    hint: `${plainText(option?.description ?? key)}. ${defaultText(option)}`,
  }
}

function defaultText(option: z.ZodType | undefined): string {
  const fallback = option?.safeParse(undefined)
  return fallback?.success ? `Default: ${JSON.stringify(fallback.data)}.` : 'It has no default.'
}

/**
 * Reads the ground truth of a rule that compares text. A string is used unchanged, even if empty. A number becomes
 * its decimal text: `72` and, since JSON does not distinguish them, `72.0` become `72`; never in exponent form.
 * (verl compares with the number itself, so nothing ever matches.)
 *
 * @throws RuleInputError if it is missing or has another type
 */
export function groundTruthText(ruleName: string, groundTruth: unknown): string {
  if (typeof groundTruth === 'string') return groundTruth
  if (typeof groundTruth === 'number' && Number.isFinite(groundTruth)) {
    return decimalText(groundTruth)
  }
  const wanted = `Rule ${ruleName} compares text: send groundTruth as a string, for example "72".`
  const isWrapped = isRecord(groundTruth) && Object.hasOwn(groundTruth, 'ground_truth')
  throw new RuleInputError(
    groundTruth === undefined || groundTruth === null
      ? `groundTruth is missing, and rule ${ruleName} scores by it`
      : `groundTruth is ${typeInWords(groundTruth)}, rule ${ruleName} needs a string`,
    isWrapped ? `${wanted} Send reward_model.ground_truth, not the object around it.` : wanted,
  )
}

/** Writes a finite number as decimal text without an exponent: 1e21 → `1000000000000000000000`. */
export function decimalText(value: number): string {
  const shortest = String(value)
  const exponentAt = shortest.indexOf('e')
  if (exponentAt < 0) return shortest
  const exponent = Number(shortest.slice(exponentAt + 1))
  const sign = value < 0 ? '-' : ''
  const [whole = '', fraction = ''] = shortest.slice(sign.length, exponentAt).split('.')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${whole}${fraction}`
  // String() uses a positive exponent only from 1e21 on. Such a number has at most 17 significant digits, so it has no
  // fraction.
  return `${sign}${whole}${fraction.padEnd(exponent, '0')}`
}

export function typeInWords(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'missing'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'number' && !Number.isFinite(value)) return 'not a finite number'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
