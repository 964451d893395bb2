import { z } from 'zod'

/** What a rule is given: one rollout, as the trainer sent it. */
export interface RuleInput {
  dataSource: string
  /** The response text alone; the prompt is never scored. */
  solutionStr: string
  /** Any JSON; each rule says what it wants and throws `RuleInputError` for anything else. */
  groundTruth: unknown
  extraInfo: Record<string, unknown>
  /**
   * The batch's kwargs: one object for all samples of a batch, not changed while they are scored. A
   * rule reads its own keys and leaves the others to whoever knows them.
   */
  kwargs: Record<string, unknown>
}

/** What a rule answers. */
export interface RuleResult {
  score: number
  /**
   * Becomes `rewardExtraInfo`. As upstream's naive manager has it: a rule that answers a plain
   * number gives `{acc: score}`, one that answers several values gives all of them, `score` too.
   */
  extra: Record<string, unknown>
  /** The answer found in the response, as it is compared; null where there is none. */
  extracted: string | null
  /** Why this score, in a word or two: `equal`, `different`, `no answer`, … */
  reason: string
}

/**
 * How a rule came to its score, for people: computed for one sample on a page, never while a batch is scored. Each form is
 * what the response's answer and the ground truth are at one step, the last of them what is compared.
 */
export interface RuleExplanation {
  /** Where the answer is looked for, in words. */
  where: string
  /** The answer as it stands in the response; null where there is none. */
  found: string | null
  /** From what stands there to what is compared; null on a side: there is nothing. */
  forms: { step: string; response: string | null; groundTruth: string | null }[]
  /** How the last forms are compared, in words. */
  comparison: string
}

/** A built-in scorer: pure, synchronous, and linear in the length of the response. */
export interface Rule {
  /** Upstream's name of the scorer, e.g. `math_dapo`. */
  name: string
  /** What people read, e.g. `DAPO math`. */
  title: string
  /** The data sources that select this rule: exact names, or a prefix as in `aime*`. */
  dataSources: readonly string[]
  /** Strict; each option with its default and a description. */
  kwargs: z.ZodObject
  /**
   * Scores one rollout.
   * @throws RuleInputError when the ground truth or a kwarg cannot be used, RuleTimeoutError when the rule's own
   *   deadline is over; never a 0 instead
   */
  score(input: RuleInput): RuleResult
  /** The steps of `score` for the same input. Throws as `score` does. */
  explain(input: RuleInput): RuleExplanation
}

/** A rollout or a setting that a rule cannot score by: the sample fails, it does not score 0. */
export class RuleInputError extends Error {
  override readonly name = 'RuleInputError'
  /** What the caller can do about it. */
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.hint = hint
  }
}

/** A comparison that did not end within the rule's own deadline: the sample fails with `timeout`. */
export class RuleTimeoutError extends Error {
  override readonly name = 'RuleTimeoutError'
}

/**
 * The option every rule has. Upstream's scorers of 2026-01 and 2026-08 differ in `math_dapo` alone,
 * but one setting has to do for a batch of several data sources.
 */
export const versionOption = z
  .enum(['2026-01', '2026-08'])
  .default('2026-01')
  .describe("The state of upstream's scorers to agree with")

/**
 * Makes a rule whose `score` gets its own kwargs parsed, with the defaults filled in. The parsed
 * options are kept for as long as the kwargs object lives: zod runs once a batch, not once a sample.
 */
export function defineRule<Options extends z.ZodObject>(definition: {
  name: string
  title: string
  dataSources: readonly string[]
  kwargs: Options
  score(input: RuleInput, options: z.output<Options>): RuleResult
  explain(input: RuleInput, options: z.output<Options>): RuleExplanation
}): Rule {
  const { name, title, dataSources, kwargs, score, explain } = definition
  const parsed = new WeakMap<object, z.output<Options>>()
  const optionsOf = (given: Record<string, unknown>): z.output<Options> => {
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
  return {
    name,
    title,
    dataSources,
    kwargs,
    score: (input) => score(input, optionsOf(input.kwargs)),
    explain: (input) => explain(input, optionsOf(input.kwargs)),
  }
}

/** The part of `given` that a rule with these options knows. */
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

/** Says in words which kwarg of which rule is wrong, and what it may be. */
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
    hint: `${option?.description ?? key}. ${defaultText(option)}`,
  }
}

function defaultText(option: z.ZodType | undefined): string {
  const fallback = option?.safeParse(undefined)
  return fallback?.success ? `Default: ${JSON.stringify(fallback.data)}.` : 'It has no default.'
}

/**
 * The ground truth of a rule that compares text. A string is taken as it is, the empty one too. A
 * number is taken as its decimal text: `72` and, since JSON does not tell them apart, `72.0` as
 * `72`; never in exponent form. (Upstream compares with the number itself, so nothing ever matches.)
 *
 * @throws RuleInputError when it is missing or something else
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
      : `groundTruth is ${typeInWords(groundTruth)}, rule ${ruleName} wants a string`,
    isWrapped ? `${wanted} Send reward_model.ground_truth itself, not what it is in.` : wanted,
  )
}

/** A finite number as decimal text without an exponent: 1e21 → `1000000000000000000000`. */
export function decimalText(value: number): string {
  const shortest = String(value)
  const exponentAt = shortest.indexOf('e')
  if (exponentAt < 0) return shortest
  const exponent = Number(shortest.slice(exponentAt + 1))
  const sign = value < 0 ? '-' : ''
  const [whole = '', fraction = ''] = shortest.slice(sign.length, exponentAt).split('.')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${whole}${fraction}`
  // String() turns to exponents at 1e21, with at most 17 digits: the point is always past the end.
  return `${sign}${whole}${fraction.padEnd(exponent, '0')}`
}

/** For messages: `an array`, `a number` … */
export function typeInWords(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'missing'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'number' && !Number.isFinite(value)) return 'not a finite number'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/** Whether it is a JSON object: not null and not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
