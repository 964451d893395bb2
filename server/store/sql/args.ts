/** Adds a value to a statement and returns its placeholder, such as `$3`. */
export type Arg = (value: unknown) => string

/** The values of a statement whose text is composed step by step, and the function that adds them. */
export function args(): { values: unknown[]; arg: Arg } {
  const values: unknown[] = []
  return { values, arg: (value) => `$${values.push(value)}` }
}
