/** Bounds of a judge's scale, both inclusive. A value outside them is not a verdict; it is never clamped. */
export interface NumberRange {
  min?: number | undefined
  max?: number | undefined
}

export type NumberFound =
  | { ok: true; value: number; text: string }
  | { ok: false; text: string; problem: string }

/**
 * A written number: sign, digits with `,` and `.`, optionally `/10`, `out of 10` or `%`. Parts of words (`GPT-4`,
 * `10th`, `1e5`) do not match, and the `-` of a range (`8-10`) is not a sign.
 */
const NUMBER =
  /(?<![\p{L}\p{N}_]|\p{N}[.,]|\p{L}-)(?<sign>[+\-\u2212\u2013])?(?<digits>\d+(?:[.,]\d+)*|(?<![.,])\.\d+)(?![.,]?\p{N}|\p{L}|_)(?:\s*(?:\/|out\s+of)\s*(?<scale>\d+(?:\.\d+)?)(?![.,]?\p{N}|\p{L}))?(?<percent>\s?%)?/giu

export function numbersIn(text: string, range: NumberRange): NumberFound[] {
  return [...text.matchAll(NUMBER)].map((match) => read(match, range))
}

/** Returns the number that makes up the whole text, apart from spaces, or null for any other text. */
export function numberOf(text: string, range: NumberRange): NumberFound | null {
  const whole = text.trim()
  const [match, another] = whole.matchAll(NUMBER)
  if (match === undefined || another !== undefined) return null
  // A trailing full stop (`8.`) is allowed, as in MT-Bench's pattern.
  return whole === match[0] || whole === `${match[0]}.` ? read(match, range) : null
}

export function numberAtStartOf(text: string, range: NumberRange): NumberFound | null {
  const start = /^[\s*:=]*/.exec(text)?.[0].length ?? 0
  const rest = text.slice(start)
  const [match] = rest.matchAll(NUMBER)
  return match?.index === 0 ? read(match, range) : null
}

function read(match: RegExpExecArray, range: NumberRange): NumberFound {
  const { sign, digits = '', scale, percent } = match.groups ?? {}
  const text = match[0]
  const size = sizeOf(digits)
  if (size === null) return { ok: false, text, problem: `"${text}" is not a number` }
  if (scale !== undefined && Number(scale) !== range.max) {
    const wanted =
      range.max === undefined ? 'no max is set' : `the scale ends at ${range.max}, not at ${scale}`
    return { ok: false, text, problem: `"${text}": ${wanted}` }
  }
  if (percent !== undefined && range.max !== 100) {
    return { ok: false, text, problem: `"${text}": a percentage needs a scale that ends at 100` }
  }
  // `0 - size`, because `-size` would turn 0 into −0.
  const value = sign === undefined || sign === '+' ? size : 0 - size
  return withinRange(value, text, range)
}

export function withinRange(value: number, text: string, { min, max }: NumberRange): NumberFound {
  if (!Number.isFinite(value)) return { ok: false, text, problem: `${text} is not finite` }
  if ((min !== undefined && value < min) || (max !== undefined && value > max)) {
    return { ok: false, text, problem: `${text} is outside ${min ?? '−∞'} to ${max ?? '∞'}` }
  }
  return { ok: true, value, text }
}

/**
 * Reads digits in which commas separate thousands and a point begins the decimals. Returns null for other texts, such
 * as `1.5.2` and `7,5`.
 */
function sizeOf(digits: string): number | null {
  if (/^\d+(?:\.\d+)?$|^\.\d+$/.test(digits)) return Number(digits)
  if (/^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/.test(digits)) return Number(digits.replaceAll(',', ''))
  return null
}
