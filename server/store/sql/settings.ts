import type { Database } from '../database.ts'

export interface SettingRow<T> {
  value: T
  changed_at: Date
  changed_by: string
}

export async function readSetting<T>(
  db: Database,
  name: string,
): Promise<SettingRow<T> | undefined> {
  const [row] = await db.rows<SettingRow<T>>(
    'setting',
    'select value, changed_at, changed_by from setting where name = $1',
    [name],
  )
  return row
}

export async function writeSetting(
  db: Database,
  name: string,
  value: unknown,
  by: string,
): Promise<void> {
  await db.adhoc(
    `insert into setting (name, value, changed_by) values ($1, $2::jsonb, $3)
     on conflict (name) do update set value = excluded.value, changed_by = excluded.changed_by, changed_at = now()`,
    [name, JSON.stringify(value), by],
  )
}
