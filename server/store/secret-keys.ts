import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import type { Logger } from '../log.ts'
import type { Database } from './database.ts'
import { SecretBox, type SecretKey, type SecretUse, secretKey } from './secret-box.ts'
import { readSetting } from './sql/settings.ts'

/** Source of the secrets keys: the value of REWARDOPS_SECRETS_KEY, else a file. */
export interface SecretKeySource {
  value: string | null
  /** Absolute path. */
  file: string
  /** The id of a lost key, which a server replaces with its own key. */
  lost: string | null
}

const KEY_SETTING = 'secrets.key'
const COLUMNS: readonly { use: SecretUse; table: string; column: string; isUsed: string }[] = [
  { use: 'server.api_key', table: 'server', column: 'api_key', isUsed: 'removed_at is null' },
  { use: 'webhook.url', table: 'webhook', column: 'url', isUsed: 'true' },
  { use: 'webhook.secret', table: 'webhook', column: 'secret', isUsed: 'true' },
]

/**
 * The keys of this process, checked against the database. A server creates the key file of a new database; all other
 * processes of that database need the same key. If `lost` is the id of that key, the server replaces the key. The
 * secrets stay stored, so that they can be read again if the key is found.
 * @throws Error that names the missing key and the remedy
 */
export async function openSecrets(
  db: Database,
  source: SecretKeySource,
  { mayCreate, log }: { mayCreate: boolean; log: Logger },
): Promise<SecretBox> {
  const stored = await storedKeyId(db)
  let keys = source.value === null ? readKeyFile(source.file, log) : parseKeys(source.value)
  const isMissing = keys.length === 0
  const isLost = mayCreate && stored !== null && stored === source.lost && !hasKey(keys, stored)
  const remedy = REMEDY + (mayCreate && stored !== null ? lossRemedy(stored) : '')
  const place =
    source.value === null ? `the key file ${source.file}` : 'the value of REWARDOPS_SECRETS_KEY'
  if (isMissing && !isLost && (stored !== null || !mayCreate)) {
    throw new Error(
      `${place} does not exist, and the secrets of this database are encrypted` +
        `${stored === null ? '' : ` with the key ${stored}`}. ${remedy}`,
    )
  }
  if (isMissing) keys = [createKeyFile(source.file)]
  const used =
    stored === null || isLost ? await rememberKey(db, keys[0] as SecretKey, stored) : stored
  if (!hasKey(keys, used)) {
    // Another server has stored its key first, so this file is useless.
    if (isMissing) rmSync(source.file)
    throw new Error(
      `${place} has ${keys.length === 1 ? 'the key' : 'the keys'} ${keys.map(({ id }) => id).join(', ')}, ` +
        `and the secrets of this database are encrypted with the key ${used}. ${used === stored ? remedy : REMEDY}`,
    )
  }
  if (isLost) log.warn({ lost: stored, key: used }, 'the lost secrets key was replaced')
  return new SecretBox(keys)
}

const hasKey = (keys: readonly SecretKey[], id: string) => keys.some((key) => key.id === id)

/**
 * The keys of this process, one per line, or null if it has none.
 * @throws Error for a malformed key or an unreadable file
 */
export function readSecretKeys(source: SecretKeySource, log: Logger): string | null {
  const keys = source.value === null ? readKeyFile(source.file, log) : parseKeys(source.value)
  return keys.length === 0 ? null : keys.map(lineOf).join('')
}

/** Creates a key file with the keys that {@link readSecretKeys} returned. @throws Error if the file exists */
export function writeSecretKeys(file: string, lines: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const fd = openSync(file, 'wx', 0o600)
  try {
    writeSync(fd, lines)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  chmodSync(file, 0o600)
}

const lineOf = ({ bytes }: SecretKey) => `${bytes.toString('hex')}\n`

const REMEDY =
  'Copy the file secrets.key from the data folder of a server that uses this database, and name it in ' +
  'REWARDOPS_SECRETS_KEY_FILE, or set REWARDOPS_SECRETS_KEY to its content.'

const lossRemedy = (id: string) =>
  ` If no copy of the key is left, start one server with REWARDOPS_LOST_SECRETS_KEY=${id}, and enter the API keys of ` +
  'servers and the webhooks again.'

/**
 * Encrypts stored secrets that are plain text or encrypted with an earlier key. Does nothing while a process of an
 * earlier version runs. `reported`: the unreadable secrets that the log has named, which are not named again.
 */
export async function sealStored(
  db: Database,
  log: Logger,
  reported = new Set<string>(),
): Promise<void> {
  const keys = db.secrets
  let sealed = 0
  for (const { use, table, column, isUsed } of COLUMNS) {
    const rows = await db.adhoc<{ id: number; name: string; stored: string; isUsed: boolean }>(
      `select id, name, ${column} as stored, ${isUsed} as "isUsed" from ${table} where ${column} is not null`,
    )
    for (const { id, name, stored, isUsed } of rows) {
      if (!keys.isOutdated(stored)) continue
      const { secret, problem } = keys.tryOpen(use, stored)
      if (problem !== null) {
        if (isUsed && !reported.has(stored)) {
          reported.add(stored)
          log.warn({ [table]: name, problem }, 'a stored secret cannot be read: enter it again')
        }
        continue
      }
      if (!(await keys.mayBegin(db))) return
      const next = await keys.seal(db, use, secret)
      // A secret that was changed meanwhile is left alone.
      await db.adhoc(`update ${table} set ${column} = $2 where id = $1 and ${column} = $3`, [
        ...[id, next, stored],
      ])
      sealed++
    }
  }
  const first = keys.firstId
  if (first !== null) {
    // The key of another server that has replaced a lost key is left alone.
    await db.adhoc(
      `update setting set value = to_jsonb($2::text), changed_at = now()
       where name = $1 and value <> to_jsonb($2::text) and value #>> '{}' = any($3)`,
      [KEY_SETTING, first, keys.ids],
    )
  }
  if (sealed > 0) log.info({ secrets: sealed, key: first }, 'stored secrets encrypted')
}

async function storedKeyId(db: Database): Promise<string | null> {
  return (await readSetting<string>(db, KEY_SETTING))?.value ?? null
}

/** Stores the key's id if no id, or the id `lost`, is stored. Returns the id that is stored afterwards. */
async function rememberKey(db: Database, { id }: SecretKey, lost: string | null): Promise<string> {
  await db.adhoc(
    `insert into setting (name, value, changed_by) values ($1, to_jsonb($2::text), 'start')
     on conflict (name) do update set value = excluded.value, changed_at = now()
     where setting.value = to_jsonb($3::text)`,
    [KEY_SETTING, id, lost],
  )
  return (await storedKeyId(db)) ?? id
}

/** @throws Error that gives the position of a malformed entry, but not its text */
function parseKeys(text: string): SecretKey[] {
  const entries = text.split(/[\s,]+/).filter((entry) => entry !== '')
  return entries.map((entry, i) => {
    const bytes = Buffer.from(entry, /^[0-9a-f]{64}$/i.test(entry) ? 'hex' : 'base64')
    if (bytes.length !== 32) {
      throw new Error(
        `the secrets key ${i + 1} is not 32 bytes in hexadecimal or base64. Make one with "openssl rand -hex 32".`,
      )
    }
    return secretKey(bytes)
  })
}

/** The keys of a file, one per line. Empty if the file does not exist. */
function readKeyFile(file: string, log: Logger): SecretKey[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
    if ((statSync(file).mode & 0o077) !== 0) {
      log.warn({ file }, 'other users can read the key file of secrets: set its mode to 600')
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return []
    throw new Error(`the key file ${file} cannot be read (${code})`, { cause: error })
  }
  const keys = parseKeys(text)
  if (keys.length === 0) throw new Error(`the key file ${file} is empty`)
  return keys
}

function createKeyFile(file: string): SecretKey {
  const key = secretKey(randomBytes(32))
  writeSecretKeys(file, lineOf(key))
  return key
}
