export type JsonObject = Record<string, unknown>

/** A double may round integers above 2^53, which has sixteen digits. */
const MAYBE_UNSAFE_INTEGER = /\d{16}/

/**
 * Like the service, the parser refuses integers that a double would round.
 * @throws Error whose message describes the problem without file and line
 */
export function parseJsonObject(text: string): JsonObject {
  const value = parseJsonValue(text)
  if (Array.isArray(value)) {
    throw new Error('is a JSON array; expected JSON Lines, one object per line')
  }
  if (typeof value !== 'object' || value === null) throw new Error('is not a JSON object')
  return value as JsonObject
}

/**
 * Refuses integers that a double would round.
 * @throws Error whose message describes the problem without file and line
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

/** Matches JSON strings, and the words that Python's `json.dump` writes for floats that JSON cannot express. */
const PYTHON_NON_FINITE = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\bInfinity\b|\bNaN\b/g

export function withoutPythonNonFinite(text: string): string {
  return text.replace(PYTHON_NON_FINITE, (token) => (token.startsWith('"') ? token : 'null'))
}
