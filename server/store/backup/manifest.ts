import { z } from 'zod'
import { type ArchiveReader, BackupError, type Entry } from './archive.ts'

export const FORMAT = 1
/** The last file of the archive; a backup without it is incomplete. */
export const MANIFEST = 'manifest.json'
/** The file with the secrets keys, if the backup includes them. */
export const SECRETS_KEY = 'secrets.key'

const digest = z.string().regex(/^[0-9a-f]{64}$/)
/** Names of tables and columns become part of SQL statements, so only plain identifiers are accepted. */
const identifier = z.string().regex(/^[a-z_][a-z0-9_]*$/)

const BackedUpTable = z.object({
  name: identifier,
  columns: z.array(identifier).min(1),
  rows: z.number().int().min(0),
  /** Length of the rows in Postgres's binary COPY format, before compression. */
  bytes: z.number().int().min(0),
  /** SHA-256 of the rows before compression. */
  sha256: digest,
  /** Number of files with the rows: `tables/<name>/000001.copy.zst` and following. */
  chunks: z.number().int().min(1),
})

const Manifest = z.object({
  format: z.literal(FORMAT),
  /** Version of the program that wrote the backup. */
  program: z.string(),
  schemaVersion: z.number().int(),
  /** Migrations of the database in order of application. */
  migrations: z.array(z.object({ name: z.string(), checksum: digest })).min(1),
  postgres: z.string(),
  /** Time of the snapshot, ISO 8601. */
  takenAt: z.iso.datetime({ offset: true }),
  /** Id of the secrets key, or null if the database has none. */
  secretsKey: z.string().nullable(),
  /** Settings that were not at their defaults, without secrets. */
  settings: z.record(z.string(), z.string()),
  tables: z.array(BackedUpTable),
  /** Sequences, each with its last value, or null if the sequence was never used. */
  sequences: z.array(z.object({ name: identifier, last: z.string().regex(/^\d+$/).nullable() })),
})

export type Manifest = z.infer<typeof Manifest>
export type BackedUpTable = z.infer<typeof BackedUpTable>

/** The name of a table's nth file, from 1. */
export function chunkName(table: string, n: number): string {
  return `tables/${table}/${String(n).padStart(6, '0')}.copy.zst`
}

/** A backup whose files are complete. Their contents are checked when they are read. */
export interface CheckedBackup {
  archive: ArchiveReader
  manifest: Manifest
  entries: Map<string, Entry>
}

/**
 * Reads the manifest and checks that the archive has all its files.
 * @throws BackupError for an incomplete or damaged backup, or one of a newer version
 */
export async function readManifest(archive: ArchiveReader): Promise<CheckedBackup> {
  const list = await archive.entries()
  const last = list.at(-1)
  if (last?.name !== MANIFEST) {
    throw new BackupError(
      `${archive.path} has no manifest: it is not a backup, or the backup did not finish. Use another backup.`,
    )
  }
  const manifest = parse(archive.path, (await archive.read(last)).toString())
  const entries = new Map(list.map((entry) => [entry.name, entry]))
  for (const { name, chunks } of manifest.tables) {
    for (let n = 1; n <= chunks; n++) {
      if (entries.has(chunkName(name, n))) continue
      throw new BackupError(
        `${archive.path} is damaged: ${chunkName(name, n)} is missing. Use another backup.`,
      )
    }
  }
  return { archive, manifest, entries }
}

function parse(path: string, text: string): Manifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new BackupError(
      `${path} is damaged: its manifest cannot be read. Use another backup.`,
      error,
    )
  }
  const format = (value as { format?: unknown } | null)?.format
  if (typeof format === 'number' && format > FORMAT) {
    throw new BackupError(
      `${path} has backup format ${format}, and this version reads format ${FORMAT}. Restore it with a newer version.`,
    )
  }
  const parsed = Manifest.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new BackupError(
    `${path} is damaged: its manifest is wrong at ${issue?.path.join('.')} (${issue?.message}). Use another backup.`,
  )
}
