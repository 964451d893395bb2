/** A query row whose columns are named like the fields of an API object. Its times are `Date` objects. */
export type RowOf<Dto, Time extends keyof Dto> = Omit<Dto, Time> & {
  [time in Time]: Date | Extract<Dto[time], null>
}

/** Converts a row of {@link RowOf} to its API object: dates become ISO 8601. */
export function toDto<Row extends object>(row: Row) {
  const fields = Object.entries(row)
  return Object.fromEntries(
    fields.map(([field, value]) => [field, value instanceof Date ? value.toISOString() : value]),
  ) as {
    [field in keyof Row]: Date extends Row[field] ? string | Exclude<Row[field], Date> : Row[field]
  }
}
