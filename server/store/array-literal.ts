/**
 * Builds Postgres array literals. node-postgres converts arrays element by element at about 1 µs each, which took 16 %
 * of a worker's time: a flush of 200 samples has 2,800 elements. A native join cuts that time to a twentieth.
 */

export function plainArray(values: readonly (number | boolean | null)[]): string {
  // `join` writes nothing for null, so arrays with a null are mapped first.
  return values.includes(null)
    ? `{${values.map((v) => (v === null ? 'NULL' : v)).join(',')}}`
    : `{${values.join(',')}}`
}

const SPECIAL = /["\\]/
const ALL_SPECIAL = /["\\]/g

/** Like {@link plainArray}, for texts. They must not contain NUL characters. */
export function textArray(values: readonly (string | null)[]): string {
  let out = '{'
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as string | null
    if (i > 0) out += ','
    if (value === null) out += 'NULL'
    else if (SPECIAL.test(value)) out += `"${value.replace(ALL_SPECIAL, '\\$&')}"`
    else out += `"${value}"`
  }
  return `${out}}`
}
