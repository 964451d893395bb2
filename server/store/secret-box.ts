import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import type pg from 'pg'
import { excludeEarlier, SECRETS_SINCE } from './schema-version.ts'

/**
 * A key that encrypts secrets: 32 random bytes, and as its id a digest of the bytes, for use in the database and in
 * errors.
 */
export interface SecretKey {
  id: string
  bytes: Buffer
}

/**
 * The column that holds a secret. The column name is authenticated together with the secret, so a secret that was
 * moved to another column is refused.
 */
export type SecretUse = 'server.api_key' | 'webhook.url' | 'webhook.secret'

interface Versioned {
  transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T>
}

const SEALED = /^sealed:v1:([0-9a-f]{8}):([\w-]+)$/
const IV_BYTES = 12
const TAG_BYTES = 16

export function secretKey(bytes: Buffer): SecretKey {
  const id = createHash('sha256').update('rewardops secrets key').update(bytes).digest('hex')
  return { id: id.slice(0, 8), bytes }
}

/**
 * Encrypts secrets of the database with AES-256-GCM: `sealed:v1:<key id>:<IV, tag and text in base64url>`. Secrets that
 * earlier versions stored as plain text are read as they are.
 */
export class SecretBox {
  readonly #keys: readonly SecretKey[]
  #isSealing = false

  /** The first key encrypts; all keys decrypt. Without a key, secrets are stored as plain text, in tests only. */
  constructor(keys: readonly SecretKey[]) {
    this.#keys = keys
  }

  /**
   * Encrypts a secret for storage. Earlier versions cannot decrypt, so while a process of an earlier version runs, the
   * secret stays plain text, and `sealStored` encrypts it later. Once a secret is encrypted, earlier versions no longer
   * start.
   */
  async seal<T extends string | null | undefined>(
    db: Versioned,
    use: SecretUse,
    secret: T,
  ): Promise<T> {
    const [key] = this.#keys
    if (typeof secret !== 'string' || key === undefined || !(await this.mayBegin(db))) return secret
    return sealed(key, use, secret) as T
  }

  /**
   * True if secrets may be encrypted, because no process of an earlier version runs or can start from now on. Once
   * true, it stays true.
   */
  async mayBegin(db: Versioned): Promise<boolean> {
    if (this.#isSealing) return true
    this.#isSealing = await db
      .transaction(async (client) => {
        if (!(await excludeEarlier(client, SECRETS_SINCE))) throw new EarlierVersionRuns()
        return true
      })
      .catch((error: unknown) => {
        if (error instanceof EarlierVersionRuns) return false
        throw error
      })
    return this.#isSealing
  }

  /**
   * Decrypts a stored secret. An unencrypted secret is returned unchanged.
   * @throws Error if this process lacks the key, or if the secret is damaged or belongs to another column
   */
  open<T extends string | null>(use: SecretUse, stored: T): T {
    if (stored === null) return stored
    const found = SEALED.exec(stored)
    if (found === null) return stored
    const [, id, base64 = ''] = found
    const key = this.#keys.find((one) => one.id === id)
    if (key === undefined) {
      throw new Error(`a secret (${use}) is encrypted with the key ${id}, which this process lacks`)
    }
    const bytes = Buffer.from(base64, 'base64url')
    try {
      const decipher = createDecipheriv('aes-256-gcm', key.bytes, bytes.subarray(0, IV_BYTES))
      decipher.setAAD(Buffer.from(use))
      decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
      const text = decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES))
      return Buffer.concat([text, decipher.final()]).toString() as T
    } catch (error) {
      throw new Error(`a secret (${use}) is damaged, or belongs to another field`, { cause: error })
    }
  }

  /** Like {@link open}, but returns the error as `problem`, so that one unreadable secret affects only its own row. */
  tryOpen(
    use: SecretUse,
    stored: string | null,
  ): { secret: string | null; problem: string | null } {
    try {
      return { secret: this.open(use, stored), problem: null }
    } catch (error) {
      return { secret: null, problem: (error as Error).message }
    }
  }

  get firstId(): string | null {
    return this.#keys[0]?.id ?? null
  }

  get ids(): string[] {
    return this.#keys.map(({ id }) => id)
  }

  /** Whether a stored secret is plain text, or encrypted with a key other than the first. */
  isOutdated(stored: string): boolean {
    return this.firstId !== null && SEALED.exec(stored)?.[1] !== this.firstId
  }
}

class EarlierVersionRuns extends Error {}

function sealed({ id, bytes }: SecretKey, use: SecretUse, secret: string): string {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', bytes, iv)
  cipher.setAAD(Buffer.from(use))
  const text = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return `sealed:v1:${id}:${Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64url')}`
}
