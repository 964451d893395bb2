/** A number and its unit, which may be empty. They are separate, so that units can be drawn lighter. */
export interface Quantity {
  value: string
  unit: string
}

const UNKNOWN = '–'

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

/** An integer with thousands separators: `12,345`. */
export function formatCount(n: number | null | undefined): string {
  return n === null || n === undefined || !Number.isFinite(n) ? UNKNOWN : grouped.format(n)
}

/**
 * Parses an integer as a user types it, with or without thousands separators: a space, point, comma or underscore
 * before each group of three digits. Returns NaN for any other text, including a fraction, so that `1.5` does not
 * become 15.
 */
export function readInteger(text: string): number {
  const typed = text.trim().replace('−', '-')
  if (/^-?[1-9]\d{0,2}(?:[\s,._]\d{3})+$/.test(typed)) {
    return Number(typed.replaceAll(/[\s,._]/g, ''))
  }
  return /^-?\d+$/.test(typed) ? Number(typed) : Number.NaN
}

/**
 * Parses a number as a user types it. `1,200.5` and `1 200` have thousands separators; any other comma is a decimal
 * comma, so `0,5` is 0.5. The minus may be typographic. Returns NaN for any other text.
 */
export function readNumber(text: string): number {
  const typed = text.trim().replace('−', '-')
  if (typed === '') return Number.NaN
  const isGrouped = /^-?[1-9]\d{0,2}(?:[\s,_]\d{3})+(?:\.\d+)?$/.test(typed)
  const value = Number(isGrouped ? typed.replaceAll(/[\s,_]/g, '') : typed.replace(',', '.'))
  return Number.isFinite(value) ? value : Number.NaN
}

/** Three significant digits and a suffix from 10,000 on: `9,876`, `12.3k`, `4.05M`. */
export function formatCompact(n: number): string {
  const size = Math.abs(n)
  if (size < 10_000) return formatCount(n)
  const [divisor, letter] = size < 1e6 ? [1e3, 'k'] : size < 1e9 ? [1e6, 'M'] : [1e9, 'G']
  return `${significant(n / divisor, 3)}${letter}`
}

/** `digits` significant digits without an exponent or trailing zeros. */
export function significant(n: number, digits: number): string {
  if (n === 0) return '0'
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(n))))
  const fixed = n.toFixed(Math.min(decimals, 12))
  return fixed.includes('.') ? fixed.replace(/\.?0+$/, '') : fixed
}

/**
 * A reward. Integers stay unchanged; other numbers have three decimals, or one from 1,000 on. Very small and very large
 * numbers have an exponent. Only 0 becomes `0`.
 */
export function formatScore(score: number | null | undefined): string {
  if (score === null || score === undefined || !Number.isFinite(score)) return UNKNOWN
  if (Number.isInteger(score))
    return Math.abs(score) < 1e7 ? minus(String(score)) : minus(score.toExponential(2))
  const size = Math.abs(score)
  if (size < 0.001 || size >= 1e7) return minus(score.toExponential(2))
  return minus(size >= 1000 ? score.toFixed(1) : score.toFixed(3))
}

/** A difference of rewards with its sign: `+0.250`, `−0.250`, `0`. */
export function formatSigned(difference: number | null | undefined): string {
  const text = formatScore(difference)
  return Number(difference) > 0 && text !== UNKNOWN ? `+${text}` : text
}

/**
 * A difference with its sign. Next to a half-width such as `± 0.003`, a difference below 0.001 is written as `0.000`.
 */
export function formatSignedWithin(difference: number, halfWidth: number): string {
  const isNoise = Math.abs(difference) < 0.001 && halfWidth >= 0.001 && halfWidth < 1_000
  return isNoise ? '0.000' : formatSigned(difference)
}

/**
 * The largest double below a number. As the upper bound of a range, it excludes the edge, which belongs to the next
 * range.
 */
export function justBelow(value: number): number {
  if (value === 0) return -Number.MIN_VALUE
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, value)
  bits.setBigInt64(0, bits.getBigInt64(0) + (value > 0 ? -1n : 1n))
  return bits.getFloat64(0)
}

/** The typographic minus sign, as wide as a digit, so that columns align. */
function minus(text: string): string {
  return text.replaceAll('-', '−')
}

/** A duration from milliseconds, in a readable unit: `4.2 µs`, `118 ms`, `1.24 s`, `2:05 min`. */
export function formatDuration(ms: number | null | undefined): Quantity {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return { value: UNKNOWN, unit: '' }
  const size = Math.abs(ms)
  // Rules may take microseconds.
  if (size > 0 && size < 0.0995) return { value: significant(ms * 1000, 2), unit: 'µs' }
  if (size < 999.5)
    return { value: size < 10 ? significant(ms, 2) : String(Math.round(ms)), unit: 'ms' }
  if (size < 59_950) return { value: (ms / 1000).toFixed(size < 9_995 ? 2 : 1), unit: 's' }
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) {
    return {
      value: `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`,
      unit: 'min',
    }
  }
  const minutes = Math.round(seconds / 60)
  if (minutes < 48 * 60) {
    return {
      value: `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}`,
      unit: 'h',
    }
  }
  return { value: significant(minutes / 1440, 3), unit: 'd' }
}

export function durationText(ms: number | null | undefined): string {
  return quantityText(formatDuration(ms))
}

/** A quantity as one string, with a no-break space before its unit. */
export function quantityText({ value, unit }: Quantity): string {
  return unit ? `${value}\u00a0${unit}` : value
}

/** A rate per second, with one decimal below 10, none above, and compact from 10,000 on. Only 0 becomes `0`. */
export function formatRate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined || !Number.isFinite(perSecond)) return UNKNOWN
  if (perSecond === 0) return '0'
  if (perSecond < 0.05) return '<0.1'
  return perSecond < 9.95 ? perSecond.toFixed(1) : formatCompact(Math.round(perSecond))
}

export function formatRatio(ratio: number | null): string {
  return ratio === null ? UNKNOWN : `${ratio.toFixed(2)}×`
}

/** Bytes in powers of 1,024. */
export function formatBytes(bytes: number | null | undefined): Quantity {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes))
    return { value: UNKNOWN, unit: '' }
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let size = bytes
  let i = 0
  while (size >= 1000 && i < units.length - 1) {
    size /= 1024
    i++
  }
  return { value: significant(size, 3), unit: units[i] as string }
}

/** A share of 0 to 1 in percent. Only 1 becomes `100 %`, and only 0 becomes `0 %`. */
export function formatPercent(share: number | null | undefined): Quantity {
  if (share === null || share === undefined || !Number.isFinite(share))
    return { value: UNKNOWN, unit: '' }
  const percent = share * 100
  if (percent > 0 && percent < 0.1) return { value: '<0.1', unit: '%' }
  if (percent > 99.9 && percent < 100) return { value: '>99.9', unit: '%' }
  if (percent > 99 && percent < 100)
    return { value: (Math.floor(percent * 10) / 10).toFixed(1), unit: '%' }
  const whole = percent === 0 || percent >= 9.95
  return { value: whole ? String(Math.round(percent)) : percent.toFixed(1), unit: '%' }
}

/** A difference of two shares in percentage points with its sign: `+12 points`, `−0.4 points`. Only 0 becomes `0`. */
export function formatPoints(difference: number): Quantity {
  const size = significant(Math.abs(difference) * 100, 2)
  const sign = size === '0' ? '' : difference > 0 ? '+' : '−'
  return { value: `${sign}${size}`, unit: size === '1' ? 'point' : 'points' }
}

export function percentText(share: number | null | undefined): string {
  return quantityText(formatPercent(share))
}

/** The note of a list, newest first: `12, newest first`, or `Newest 20` if there may be more. */
export function newestText(n: number, isCut: boolean): string {
  return isCut ? `Newest ${formatCount(n)}` : `${formatCount(n)}, newest first`
}

/** A number with its noun: `1 sample`, `12 samples`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${formatCount(n)} ${n === 1 ? one : many}`
}
