import { createHash, randomBytes } from 'node:crypto'
import type {
  ApiKeyDto,
  CreatedKeyDto,
  CreateKeyInput,
  KeysDto,
  RequireKeysInput,
} from '../contract/access.ts'
import type { Actor, Role } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { type Database, isOutage } from '../store/database.ts'
import {
  type ApiKeyRow,
  insertKey,
  keyById,
  listedKeys,
  livingKeys,
  renameKey,
  revokeKey,
  touchKey,
} from '../store/sql/api-keys.ts'
import { notify } from '../store/sql/notify.ts'
import { readSetting, writeSetting } from '../store/sql/settings.ts'
import { endKey } from './key-end.ts'

/** Keys that are not revoked, at most: they are all kept in memory. */
export const MAX_KEYS = 1_000
const LISTED = 500
/** A revocation elsewhere is heard of by notification; this stands behind it. */
const POLL_MS = 2_000
/** `lastUsedAt` is written so often at most. */
const USED_EVERY_MS = 60_000
const EXPIRED = 'The key has expired.'
/** The setting that says whether stored keys are needed. */
const REQUIRED = 'access.required'

/** Somebody with a key, for as long as it is good. */
export interface KeyHolder extends Actor {
  /** The stored key's number; null: a key of the environment, or nobody's. */
  keyId: number | null
  /** False: nobody in particular, who is on this machine. */
  hasKey: boolean
  /** Aborted when the key is revoked or has ended; its reason is the `unauthorized` that says so. */
  ended: AbortSignal
}

interface RingKey {
  holder: KeyHolder
  end: AbortController
  expiresAtMs: number | null
  usedAtMs: number
}

/** What the login cookie of a key holds. */
export function sessionOf(key: string): string {
  return createHash('sha256').update(`rewardops session ${key}`).digest('hex')
}

/** By what a key, or the value of a cookie, is looked up: comparing it letter by letter would tell of the key. */
export function lookUpOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/**
 * The stored keys as this process knows them: read at start, when told of a change, and every 2 s. Looking one up asks
 * nobody; a revoked key is refused here at once and elsewhere as soon as the notification arrives.
 */
export class KeyRing {
  readonly #db: Database
  readonly #log: Logger
  readonly #configured: readonly string[]
  readonly #loopbackOnly: boolean
  #byKey = new Map<string, RingKey>()
  #bySession = new Map<string, RingKey>()
  #byId = new Map<number, RingKey>()
  #required = false
  #timer: NodeJS.Timeout | undefined
  #reading: Promise<void> | null = null
  #readAgain = false
  #onRequired = () => {}

  /** `configured`: names of the keys of REWARDOPS_API_KEYS. With any of them, every call needs a key. */
  constructor(options: {
    db: Database
    log: Logger
    configured: readonly string[]
    loopbackOnly: boolean
  }) {
    this.#db = options.db
    this.#log = options.log
    this.#configured = options.configured
    this.#loopbackOnly = options.loopbackOnly
  }

  /** Reads the keys; throws when the database does not answer. */
  async start(): Promise<void> {
    await this.#read()
    this.#timer = setInterval(() => this.changed(), POLL_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Somebody changed keys, perhaps: reads them again. */
  changed(): void {
    this.reload().catch((error: Error) => {
      if (!isOutage(error)) this.#log.warn({ err: error.message }, 'keys were not read')
    })
  }

  /** Resolves when what was stored before the call is known. */
  async reload(): Promise<void> {
    if (this.#reading !== null) {
      // What is being read may be older than the change.
      this.#readAgain = true
      await this.#reading
      return
    }
    this.#reading = (async () => {
      do {
        this.#readAgain = false
        await this.#read()
      } while (this.#readAgain)
    })().finally(() => {
      this.#reading = null
    })
    await this.#reading
  }

  /** Whether somebody asked for keys to be needed on this page; keys of the environment are needed in any case. */
  get required(): boolean {
    return this.#required
  }

  /** Whether a call without a key is refused. */
  get requiresKey(): boolean {
    return this.#configured.length > 0 || this.#required
  }

  /** Called whenever `required` turns true. */
  set onRequired(call: () => void) {
    this.#onRequired = call
  }

  /** Who has this key; null: nobody, or no longer. */
  byKey(key: string): KeyHolder | null {
    return this.#byKey.size === 0 ? null : this.#good(this.#byKey.get(lookUpOf(key)))
  }

  /** Who signed in with this cookie. */
  bySession(cookie: string): KeyHolder | null {
    return this.#bySession.size === 0 ? null : this.#good(this.#bySession.get(lookUpOf(cookie)))
  }

  #good(known: RingKey | undefined): KeyHolder | null {
    if (known === undefined) return null
    const now = Date.now()
    if (known.expiresAtMs !== null && known.expiresAtMs <= now) {
      endKey(known.end, EXPIRED)
      return null
    }
    if (now - known.usedAtMs >= USED_EVERY_MS) {
      known.usedAtMs = now
      touchKey(this.#db, known.holder.keyId as number).catch(() => {})
    }
    return known.holder
  }

  /** How access is decided, and every key without its secret, those that work first. */
  async list(): Promise<KeysDto> {
    const rows = await listedKeys(this.#db, LISTED + 1)
    return {
      requiresKey: this.requiresKey,
      configured: this.#configured.map((name) => ({ name })),
      loopbackOnly: this.#loopbackOnly,
      keys: rows.slice(0, LISTED).map(toDto),
      hasMore: rows.length > LISTED,
    }
  }

  /** Makes a key. Throws `name_taken`, `too_many_keys`. */
  async create(input: CreateKeyInput, by: string): Promise<CreatedKeyDto> {
    if (this.#byId.size >= MAX_KEYS) {
      throw new RewardOpsError('too_many_keys', `There are ${MAX_KEYS} keys already.`)
    }
    const key = `rwo_${randomBytes(32).toString('base64url')}`
    const row = await this.#named(input.name, () =>
      insertKey(this.#db, {
        name: input.name,
        role: input.role,
        hash: Buffer.from(lookUpOf(key), 'hex'),
        sessionHash: Buffer.from(lookUpOf(sessionOf(key)), 'hex'),
        prefix: key.slice(0, 8),
        createdBy: by,
        expiresInDays: input.expiresInDays,
      }),
    )
    await this.#tell()
    return { ...toDto(row), key }
  }

  /** Throws `key_not_found`, `name_taken`. */
  async rename(id: string, name: string): Promise<ApiKeyDto> {
    const row = await this.#named(name, () => renameKey(this.#db, numberOf(id), name))
    if (row === undefined) throw noKey(id)
    await this.#tell()
    return toDto(row)
  }

  /** Takes a key away; again changes nothing. Throws `key_not_found`, `last_admin_key`. */
  async revoke(id: string, by: string): Promise<ApiKeyDto> {
    const number = numberOf(id)
    const before = await keyById(this.#db, number)
    if (before === undefined) throw noKey(id)
    const keepAdmin =
      this.#required &&
      this.#configured.length === 0 &&
      before.role === 'admin' &&
      before.revoked_at === null
    if (!(await revokeKey(this.#db, number, by, keepAdmin))) {
      throw new RewardOpsError(
        'last_admin_key',
        `"${before.name}" is the last admin key without expiry, and API keys are required.`,
      )
    }
    await this.#tell()
    return toDto((await keyById(this.#db, number)) as ApiKeyRow)
  }

  /** One key, for what is noted of a change. Throws `key_not_found`. */
  async get(id: string): Promise<ApiKeyDto> {
    const row = await keyById(this.#db, numberOf(id))
    if (row === undefined) throw noKey(id)
    return toDto(row)
  }

  /**
   * From now on calls need a key, or need none. To need one, an admin's key must be shown that does not end by itself:
   * whoever turns it on has kept it. Throws `admin_key_needed`, `keys_configured`.
   */
  async require({ required, key }: RequireKeysInput, by: string): Promise<KeysDto> {
    if (this.#configured.length > 0) {
      throw new RewardOpsError(
        'keys_configured',
        'REWARDOPS_API_KEYS is set, so API keys are always required.',
      )
    }
    if (required) {
      await this.reload()
      const known = key === null ? undefined : this.#byKey.get(lookUpOf(key))
      if (known?.holder.role !== 'admin' || known.expiresAtMs !== null) {
        throw new RewardOpsError(
          'admin_key_needed',
          key === null
            ? 'No key was given.'
            : known === undefined
              ? 'The key is unknown.'
              : known.holder.role === 'admin'
                ? 'The key expires, and no admin could sign in after that.'
                : `The key has the role ${known.holder.role}.`,
        )
      }
    }
    await writeSetting(this.#db, REQUIRED, required && this.#loopbackOnly, by)
    await this.#tell()
    return this.list()
  }

  async #named<T>(name: string, store: () => Promise<T>): Promise<T> {
    try {
      return await store()
    } catch (error) {
      if ((error as { constraint?: string }).constraint !== 'api_key_name_living') throw error
      throw new RewardOpsError('name_taken', `There is a key named "${name}".`)
    }
  }

  async #tell(): Promise<void> {
    await notify(this.#db.pool, 'a')
    await this.reload()
  }

  async #read(): Promise<void> {
    const [rows, required] = await Promise.all([
      livingKeys(this.#db, MAX_KEYS),
      readSetting<boolean>(this.#db, REQUIRED),
    ])
    const byKey = new Map<string, RingKey>()
    const bySession = new Map<string, RingKey>()
    const byId = new Map<number, RingKey>()
    const now = Date.now()
    for (const row of rows) {
      const known = this.#byId.get(row.id)
      const sameRole = known?.holder.role === row.role
      if (!sameRole && known !== undefined) endKey(known.end, 'The role of the key has changed.')
      // Under another name, or for another time, it is the same key: what waits goes on waiting.
      const goesOn = sameRole && known?.end.signal.aborted === false
      const kept = toRingKey(row, goesOn ? known.end : undefined)
      if (kept.expiresAtMs !== null && kept.expiresAtMs <= now) endKey(kept.end, EXPIRED)
      byId.set(row.id, kept)
      byKey.set(row.hash.toString('hex'), kept)
      bySession.set(row.session_hash.toString('hex'), kept)
    }
    const gone = [...this.#byId].filter(([id]) => !byId.has(id))
    const turnedOn = !this.#required && required?.value === true
    this.#byKey = byKey
    this.#bySession = bySession
    this.#byId = byId
    this.#required = required?.value === true
    for (const [, key] of gone) endKey(key.end, 'The key was revoked.')
    if (turnedOn) this.#onRequired()
  }
}

function toRingKey(row: ApiKeyRow, end = new AbortController()): RingKey {
  return {
    end,
    holder: {
      name: row.name,
      role: row.role as Role,
      keyId: row.id,
      hasKey: true,
      ended: end.signal,
    },
    expiresAtMs: row.expires_at?.getTime() ?? null,
    usedAtMs: row.last_used_at?.getTime() ?? 0,
  }
}

function toDto(row: ApiKeyRow): ApiKeyDto {
  const expired = row.expires_at !== null && row.expires_at.getTime() <= Date.now()
  return {
    id: `k${row.id}`,
    name: row.name,
    role: row.role,
    prefix: row.prefix,
    createdAt: row.created_at.toISOString(),
    createdBy: row.created_by,
    expiresAt: row.expires_at?.toISOString() ?? null,
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    revokedAt: row.revoked_at?.toISOString() ?? null,
    revokedBy: row.revoked_by,
    state: row.revoked_at !== null ? 'revoked' : expired ? 'expired' : 'active',
  }
}

function numberOf(id: string): number {
  return Number(id.slice(1))
}

function noKey(id: string): RewardOpsError {
  return new RewardOpsError('key_not_found', `There is no active key ${id}.`)
}
