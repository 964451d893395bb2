/** A JSON object with the fields still to be checked. */
export type JsonObject = Record<string, unknown>

/** Sixteen digits in a row: the shortest integer that a double may round (2^53 has sixteen). */
const MAYBE_UNSAFE_INTEGER = /\d{16}/

/**
 * A line as one JSON object. Integers a double would round are refused instead of rounded, as the service
 * refuses them: an id that changes by one is worse than a file that does not load.
 * @throws Error whose message says what is wrong, without the place.
 */
export function parseJsonObject(text: string): JsonObject {
  const value = parseJsonValue(text)
  if (Array.isArray(value)) {
    throw new Error('is a JSON array; JSON Lines is expected, one object a line')
  }
  if (typeof value !== 'object' || value === null) throw new Error('is not a JSON object')
  return value as JsonObject
}

/**
 * A JSON value; integers a double would round are refused.
 * @throws Error whose message says what is wrong, without the place.
 */
export function parseJsonValue(text: string): unknown {
  try {
    return MAYBE_UNSAFE_INTEGER.test(text) ? JSON.parse(text, refuseUnsafe) : JSON.parse(text)
  } catch (error) {
    if (error instanceof UnsafeIntegerError) throw error
    throw new Error(`is not valid JSON: ${(error as Error).message}`)
  }
}

class UnsafeIntegerError extends Error {}

function refuseUnsafe(key: string, value: unknown, context?: { source?: string }): unknown {
  if (
    typeof value === 'number' &&
    !Number.isSafeInteger(value) &&
    context?.source !== undefined &&
    /^-?\d+$/.test(context.source)
  ) {
    throw new UnsafeIntegerError(
      `${key === '' ? '' : `"${key}" `}is the integer ${context.source}, which is outside ±(2^53−1) and would be rounded; write it as a string`,
    )
  }
  return value
}

/** Python's `json.dump` writes these three words for floats JSON has no word for. */
const PYTHON_NON_FINITE = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\bInfinity\b|\bNaN\b/g

/** The same text with Python's `NaN` and `Infinity` outside strings as `null`, so that it is JSON. */
export function withoutPythonNonFinite(text: string): string {
  return text.replace(PYTHON_NON_FINITE, (token) => (token.startsWith('"') ? token : 'null'))
}
