/** Returns the typed keys of a record in their order. The record must have at least one key. */
export function namesOf<Name extends string>(record: Readonly<Record<Name, unknown>>) {
  return Object.keys(record) as [Name, ...Name[]]
}
