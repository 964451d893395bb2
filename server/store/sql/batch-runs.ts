import type { Database } from '../database.ts'

/** Returns the run of each batch. Batches that do not exist are left out. */
export function runsOfBatches(
  db: Database,
  ids: readonly number[],
): Promise<{ id: number; run: string }[]> {
  return db.rows(
    'runs-of-batches',
    'select batch.id, run.name as run from batch join run on run.id = batch.run_id where batch.id = any($1)',
    [ids],
  )
}

/** Whether an image is in a batch of any run whose name begins with `prefix`. `sha256` is in hexadecimal. */
export async function isImageInRuns(
  db: Database,
  sha256: string,
  prefix: string,
): Promise<boolean> {
  const rows = await db.rows(
    'image-in-runs',
    `select 1 from batch_image join batch on batch.id = batch_image.batch_id join run on run.id = batch.run_id
     where batch_image.sha256 = decode($1, 'hex') and starts_with(run.name, $2) limit 1`,
    [sha256, prefix],
  )
  return rows.length > 0
}
