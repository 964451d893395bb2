import type { Client, Database } from '../database.ts'

/** A stored version of a reward function, shared by all batches that use it. */
export interface StoredFunction {
  hash: string
  path: string
  files: Record<string, string | { base64: string }>
}

/**
 * Stores versions of functions, in the transaction that accepts a batch that uses them. Existing versions stay
 * unchanged.
 */
export async function storeFunctions(
  client: Client,
  functions: readonly StoredFunction[],
): Promise<void> {
  for (const { hash, path, files } of functions) {
    await client.query({
      name: 'function-source-insert',
      text: 'insert into function_source (hash, path, files) values ($1, $2, $3) on conflict (hash) do nothing',
      values: [hash, path, JSON.stringify(files)],
    })
  }
}

export async function functionSource(db: Database, hash: string): Promise<StoredFunction | null> {
  const [row] = await db.rows<StoredFunction>(
    'function-source',
    'select hash, path, files from function_source where hash = $1',
    [hash],
  )
  return row ?? null
}
