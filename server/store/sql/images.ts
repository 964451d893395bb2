import { RewardOpsError } from '../../errors.ts'
import type { Client, Database } from '../database.ts'
import { IMAGES_SINCE, outdatedProcesses } from '../schema-version.ts'

const MAX_RELEASED_IMAGES = 256
/**
 * Maximum number of rounds of locking and inserting images. One round suffices unless other transactions store or
 * delete the same images.
 */
const MAX_ROUNDS = 5

/**
 * Stores images in a temporary table while their request body is still arriving. {@link storeImages} copies them to the
 * final table. If they were inserted there immediately, they would block other transactions with the same images until
 * the body has arrived.
 */
export async function stageImages(
  client: Client,
  images: ReadonlyMap<string, Buffer>,
): Promise<void> {
  await client.query(
    'create temporary table if not exists staged_image (sha256 bytea primary key, bytes bytea) on commit drop',
  )
  const { rows } = await client.query<{ sha256: string }>({
    name: 'known-images',
    text: `select encode(sha256, 'hex') as sha256 from image where sha256 = any($1::bytea[])`,
    values: [[...images.keys()].map(byteaOf)],
  })
  const known = new Set(rows.map(({ sha256 }) => sha256))
  for (const [sha256, bytes] of images) {
    if (known.has(sha256)) continue
    await client.query('insert into staged_image (sha256, bytes) values ($1, $2)', [
      byteaOf(sha256),
      bytes,
    ])
  }
}

/**
 * Stores the images of a batch that are not stored yet, and the batch's references to all its images. Images without
 * bytes have been staged by {@link stageImages}. Call it late in a transaction: it locks the images until the commit,
 * in order of their hash so that callers never deadlock, and {@link releaseImages} deletes only images that are not
 * locked. Throws `busy` if an image that was already stored has been removed since.
 */
export async function storeImages(
  client: Client,
  batchId: number,
  images: ReadonlyMap<string, Buffer | null>,
): Promise<void> {
  if (images.size === 0) return
  const hashes = [...images.keys()].sort()
  for (let left = hashes, rounds = 0; left.length > 0; rounds++) {
    if (rounds > MAX_ROUNDS) throw soonAgain('An image was removed while the samples arrived.')
    const { rows } = await client.query<{ sha256: string }>({
      name: 'hold-images',
      text: `select encode(sha256, 'hex') as sha256 from image where sha256 = any($1::bytea[])
             order by image.sha256 for key share`,
      values: [left.map(byteaOf)],
    })
    const held = new Set(rows.map(({ sha256 }) => sha256))
    const others: string[] = []
    for (const sha256 of left) {
      if (held.has(sha256)) continue
      const bytes = images.get(sha256) ?? null
      const { rowCount } = await (bytes === null
        ? client.query(
            `insert into image (sha256, bytes) select sha256, bytes from staged_image where sha256 = $1
             on conflict do nothing`,
            [byteaOf(sha256)],
          )
        : client.query({
            name: 'insert-image',
            text: 'insert into image (sha256, bytes) values ($1, $2) on conflict do nothing',
            values: [byteaOf(sha256), bytes],
          }))
      // Another transaction has stored the image meanwhile. The next round locks it.
      if (rowCount === 0) others.push(sha256)
    }
    left = others
  }
  const { rows } = await client.query<{ raised: number }>({
    name: 'refer-to-images',
    text: `with refs as (insert into batch_image (batch_id, sha256) select $1, unnest($2::bytea[]) on conflict do nothing),
             raised as (update schema_version set compatible_from = $3 where version >= $3 and compatible_from < $3
                        returning version)
           select count(*)::int as raised from raised`,
    values: [batchId, hashes.map(byteaOf), IMAGES_SINCE],
  })
  // Once an image is stored, processes of versions that cannot read images no longer start. One may have started just
  // before.
  if (rows[0]!.raised > 0 && (await outdatedProcesses(client, IMAGES_SINCE)) > 0) {
    throw soonAgain('A process of an earlier version, which cannot read images, has just started.')
  }
}

function soonAgain(why: string): RewardOpsError {
  return new RewardOpsError('busy', why, { retryAfterMs: 2_000 })
}

/** Images by their SHA-256 in hexadecimal. Images that are not stored are left out. */
export async function imagesByHash(
  db: Database,
  hashes: readonly string[],
): Promise<Map<string, Buffer>> {
  const rows = await db.rows<{ sha256: string; bytes: Buffer }>(
    'images',
    `select encode(sha256, 'hex') as sha256, bytes from image where sha256 = any($1::bytea[])`,
    [hashes.map(byteaOf)],
  )
  return new Map(rows.map(({ sha256, bytes }) => [sha256, bytes]))
}

/**
 * Deletes some of a batch's references to images, and the images that no other batch refers to. Returns the bytes of
 * the deleted images, or null if the batch refers to none.
 */
export async function releaseImages(client: Client, batchId: number): Promise<number | null> {
  const { rows } = await client.query<{ sha256: Buffer }>(
    `delete from batch_image where batch_id = $1 and sha256 in (
       select sha256 from batch_image where batch_id = $1 order by sha256 limit $2) returning sha256`,
    [batchId, MAX_RELEASED_IMAGES],
  )
  if (rows.length === 0) return null
  const unused = 'not exists (select from batch_image r where r.sha256 = image.sha256)'
  const { rows: locked } = await client.query<{ sha256: Buffer }>(
    `select sha256 from image where sha256 = any($1::bytea[]) and ${unused} order by sha256 for update`,
    [rows.map(({ sha256 }) => sha256)],
  )
  if (locked.length === 0) return 0
  // A separate statement, so that it sees the references that other transactions committed while the statement above
  // waited for their locks.
  const { rows: gone } = await client.query<{ bytes: number }>(
    `delete from image where sha256 = any($1::bytea[]) and ${unused} returning octet_length(bytes) as bytes`,
    [locked.map(({ sha256 }) => sha256)],
  )
  return gone.reduce((sum, { bytes }) => sum + bytes, 0)
}

function byteaOf(sha256: string): string {
  return `\\x${sha256}`
}
