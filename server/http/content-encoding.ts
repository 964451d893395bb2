export type ContentEncoding = 'br' | 'gzip'

/**
 * Returns the first of the `offered` encodings that a request's Accept-Encoding allows, or null if it allows none.
 * Weights (`q`) are not compared, because browsers give all encodings the same weight.
 */
export function chosenEncoding(
  accepted: string | undefined,
  offered: readonly ContentEncoding[],
): ContentEncoding | null {
  if (accepted === undefined) return null
  const taken = new Map<string, boolean>()
  for (const part of accepted.split(',')) {
    const [name = '', ...parameters] = part.split(';').map((each) => each.trim().toLowerCase())
    const weight = parameters.find((each) => each.startsWith('q='))
    taken.set(name, weight === undefined || Number(weight.slice(2)) > 0)
  }
  return offered.find((each) => taken.get(each) ?? taken.get('*') ?? false) ?? null
}
