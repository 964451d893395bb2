import type { Database } from '../../store/database.ts'

export type ServerFields = Record<string, string | number | boolean | null>

export async function insertServer(db: Database, fields: ServerFields = {}): Promise<number> {
  const columns: ServerFields = {
    name: `rm-${Math.random().toString(36).slice(2)}`,
    url: 'http://127.0.0.1:9/rm',
    engine: 'vllm',
    kind: 'discriminative',
    model: 'rm',
    state: 'ready',
    ...fields,
  }
  const names = Object.keys(columns)
  const [row] = await db.adhoc<{ id: number }>(
    `insert into server (${names.map((name) => `"${name}"`).join(', ')}, tags)
     values (${names.map((_, i) => `$${i + 1}`).join(', ')}, '{}') returning id`,
    Object.values(columns),
  )
  await db.adhoc('insert into pool (name, model) values ($1, $1) on conflict do nothing', [
    columns.model,
  ])
  return row!.id
}
