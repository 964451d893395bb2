/** The names of a record that has at least one, in its order and with their types. */
export function namesOf<Name extends string>(record: Readonly<Record<Name, unknown>>) {
  return Object.keys(record) as [Name, ...Name[]]
}
