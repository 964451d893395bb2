import { createHash, randomBytes } from 'node:crypto'
import type {
  ApiKeyDto,
  CreatedKeyDto,
  CreateKeyInput,
  KeysDto,
  LoginSessionDto,
  RequireKeysInput,
  RotateKeyInput,
} from '../contract/access.ts'
import type { Role } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { SharedRead } from '../shared-read.ts'
import { notify } from '../store/channels.ts'
import { type Database, isOutage } from '../store/database.ts'
import { excludeEarlier, SCOPES_SINCE } from '../store/schema-version.ts'
import {
  type ApiKeyRow,
  insertKey,
  keyById,
  listedKeys,
  livingKeys,
  renameKey,
  revokeKey,
  rotateKey,
  touchKey,
} from '../store/sql/api-keys.ts'
import type { SessionTimes } from '../store/sql/login-sessions.ts'
import { readSetting, writeSetting } from '../store/sql/settings.ts'
import { endKey } from './key-end.ts'
import { type KeyHolder, lookUpOf } from './key-holder.ts'
import { LoginSessions, type SessionClient } from './login-sessions.ts'

/** Maximum number of unrevoked keys. All of them are kept in memory. */
export const MAX_KEYS = 1_000
/**
 * Interval of the poll that backs up the notifications, so that every process refuses a revoked key, and the cookie of
 * an ended session, within 2 s.
 */
const POLL_MS = 1_500
/** Shortest time between two reads for unknown cookies. */
const UNKNOWN_EVERY_MS = 250
/** Shortest time between two writes of `lastUsedAt`. */
const USED_EVERY_MS = 60_000
const EXPIRED = 'The key has expired.'
const REQUIRED = 'access.required'

interface RingKey {
  holder: KeyHolder
  end: AbortController
  expiresAtMs: number | null
  usedAtMs: number
}

/**
 * The login cookie of a key in earlier versions. Processes of these versions may run beside this one and look the
 * cookie up.
 */
function earlierCookie(key: string): string {
  return createHash('sha256').update(`rewardops session ${key}`).digest('hex')
}

/**
 * The stored keys and login sessions in this process's memory, read at the start, after notifications and every 1.5 s.
 * The process that revokes a key refuses it immediately, and other processes refuse it when the notification arrives.
 */
export class KeyRing {
  readonly #db: Database
  readonly #log: Logger
  readonly #configured: ReadonlyMap<string, KeyHolder>
  readonly #loopbackOnly: boolean
  readonly #sessions: LoginSessions
  readonly #nowMs: () => number
  /** Keys by {@link lookUpOf}. A rotated key has two entries until the overlap ends. */
  #byHash = new Map<string, RingKey>()
  #byId = new Map<number, RingKey>()
  #required = false
  #timer: NodeJS.Timeout | undefined
  readonly #reading = new SharedRead(() => this.#read())
  #readingUnknown: Promise<void> | null = null
  #onRequired = () => {}

  /**
   * `configured`: holders of the keys of REWARDOPS_API_KEYS by {@link lookUpOf}. If there are any, at least one of the
   * keys has the role admin, and every call needs a key.
   */
  constructor(options: {
    db: Database
    log: Logger
    configured: ReadonlyMap<string, KeyHolder>
    loopbackOnly: boolean
    sessions: SessionTimes
    /** Returns the time of the database's clock. */
    nowMs: () => number
  }) {
    this.#db = options.db
    this.#log = options.log
    this.#configured = options.configured
    this.#loopbackOnly = options.loopbackOnly
    this.#sessions = new LoginSessions(options.db, options.sessions, options.nowMs)
    this.#nowMs = options.nowMs
  }

  /** Reads the keys. @throws when the database does not answer */
  async start(): Promise<void> {
    await this.#read()
    this.#timer = setInterval(() => this.changed(), POLL_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  changed(): void {
    this.reload().catch((error: Error) => {
      if (!isOutage(error)) this.#log.warn({ err: error.message }, 'keys were not read')
    })
  }

  /** Reads the keys; resolves when changes stored before the call are known. */
  reload(): Promise<void> {
    return this.#reading.run()
  }

  /** True when the stored setting requires keys. If REWARDOPS_API_KEYS is set, keys are always required. */
  get required(): boolean {
    return this.#required
  }

  get requiresKey(): boolean {
    return this.#configured.size > 0 || this.#required
  }

  set onRequired(call: () => void) {
    this.#onRequired = call
  }

  /** The holder of a key; null if the key is unknown, revoked or expired. */
  byKey(key: string): KeyHolder | null {
    return this.#byHash.size === 0 ? null : this.#good(this.#byHash.get(lookUpOf(key)))
  }

  byCookie(cookie: string): KeyHolder | null {
    return this.#sessions.byCookie(cookie)
  }

  /**
   * Reads the sessions again for a cookie that this process does not know, because another process may have just set
   * it. All unknown cookies share at most four reads per second.
   */
  readForUnknown(): Promise<void> {
    this.#readingUnknown ??= new Promise<void>((resolve) =>
      setTimeout(resolve, UNKNOWN_EVERY_MS),
    ).then(() => {
      this.#readingUnknown = null
      return this.reload()
    })
    return this.#readingUnknown
  }

  /**
   * Opens a login session for a key, or returns null if the key is unknown. This process accepts the cookie
   * immediately.
   */
  async signIn(
    key: string,
    client: SessionClient,
  ): Promise<{ cookie: string; maxAgeSeconds: number } | null> {
    const hash = lookUpOf(key)
    const known = this.byKey(key)
    if (known === null && !this.#configured.has(hash)) return null
    const of = known === null ? { configuredHash: hash } : { keyId: known.keyId as number }
    const cookie = await this.#sessions.open(of, client)
    await this.#notify()
    return { cookie, maxAgeSeconds: this.#sessions.maxAgeSeconds }
  }

  async signOut(cookie: string): Promise<void> {
    if (await this.#sessions.signOut(cookie)) await this.#notify()
  }

  /** Login sessions, last used first. `own`: the session of the caller. */
  async listSessions(own: number | null): Promise<LoginSessionDto[]> {
    await this.reload()
    return this.#sessions.list(own)
  }

  /** @throws RewardOpsError `session_not_found` */
  async endSession(id: string): Promise<void> {
    await this.#sessions.end(id)
    await this.#notify()
  }

  async endOtherSessions(own: number | null): Promise<number> {
    const ended = await this.#sessions.endAll(own)
    await this.#notify()
    return ended
  }

  #good(known: RingKey | undefined): KeyHolder | null {
    if (known === undefined) return null
    const now = this.#nowMs()
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

  /** The access settings and the keys, at most {@link MAX_KEYS}, unrevoked ones first. The secrets are left out. */
  async list(): Promise<KeysDto> {
    const rows = await listedKeys(this.#db, MAX_KEYS + 1)
    return {
      requiresKey: this.requiresKey,
      configured: [...this.#configured.values()].map(({ name, role }) => ({ name, role })),
      loopbackOnly: this.#loopbackOnly,
      keys: rows.slice(0, MAX_KEYS).map((row) => toDto(row, this.#nowMs())),
      hasMore: rows.length > MAX_KEYS,
    }
  }

  /** Creates a key. @throws RewardOpsError `name_taken`, `too_many_keys`, `busy` while an earlier version runs */
  async create(input: CreateKeyInput, by: string): Promise<CreatedKeyDto> {
    if (this.#byId.size >= MAX_KEYS) {
      throw new RewardOpsError('too_many_keys', `There are ${MAX_KEYS} keys already.`)
    }
    const { key, stored } = newKey()
    const isScoped = input.access !== 'full' || input.runPrefix !== null
    const row = await this.#named(input.name, () =>
      this.#db.transaction(async (client) => {
        // Earlier versions would ignore the scope and give the key all rights of its role.
        if (isScoped && !(await excludeEarlier(client, SCOPES_SINCE))) {
          throw new RewardOpsError('busy', 'A process of an earlier version is running.', {
            hint: 'Processes of earlier versions ignore the limits of keys. Upgrade or stop them, then create the key.',
            retryAfterMs: 5_000,
          })
        }
        return insertKey(client, { ...input, ...stored, createdBy: by })
      }),
    )
    await this.#notify()
    return { ...toDto(row, this.#nowMs()), key }
  }

  /**
   * Replaces a key with a new one that has the same name, role and expiry. The previous key stays valid for
   * `overlapHours`. If that is 0, the sessions of the previous key end too, because that key may have leaked.
   * @throws RewardOpsError `key_not_found`
   */
  async rotate({ id, overlapHours }: RotateKeyInput): Promise<CreatedKeyDto> {
    const { key, stored } = newKey()
    const row = await rotateKey(this.#db, numberOf(id), stored, 3_600_000 * overlapHours)
    if (row === undefined) throw noKey(id)
    if (overlapHours === 0) await this.#sessions.endOfKey(row.id)
    await this.#notify()
    return { ...toDto(row, this.#nowMs()), key }
  }

  /** @throws RewardOpsError `key_not_found`, `name_taken` */
  async rename(id: string, name: string): Promise<ApiKeyDto> {
    const row = await this.#named(name, () => renameKey(this.#db, numberOf(id), name))
    if (row === undefined) throw noKey(id)
    await this.#notify()
    return toDto(row, this.#nowMs())
  }

  /** Revokes a key; a second call changes nothing. @throws RewardOpsError `key_not_found`, `last_admin_key` */
  async revoke(id: string, by: string): Promise<ApiKeyDto> {
    const number = numberOf(id)
    const before = await keyById(this.#db, number)
    if (before === undefined) throw noKey(id)
    const keepAdmin =
      this.#required &&
      this.#configured.size === 0 &&
      before.role === 'admin' &&
      before.access === 'full' &&
      before.revoked_at === null
    if (!(await revokeKey(this.#db, number, by, keepAdmin))) {
      throw new RewardOpsError(
        'last_admin_key',
        `"${before.name}" is the last admin key without expiry, and API keys are required.`,
      )
    }
    await this.#notify()
    return toDto((await keyById(this.#db, number)) as ApiKeyRow, this.#nowMs())
  }

  /** A key, for the audit log. @throws RewardOpsError `key_not_found` */
  async get(id: string): Promise<ApiKeyDto> {
    const row = await keyById(this.#db, numberOf(id))
    if (row === undefined) throw noKey(id)
    return toDto(row, this.#nowMs())
  }

  /**
   * Makes keys required or optional. To require keys, the caller sends an admin key without expiry, as proof that an
   * admin can still sign in.
   * @throws RewardOpsError `admin_key_needed`, `keys_configured`
   */
  async require({ required, key }: RequireKeysInput, by: string): Promise<KeysDto> {
    if (this.#configured.size > 0) {
      throw new RewardOpsError(
        'keys_configured',
        'REWARDOPS_API_KEYS is set, so API keys are always required.',
      )
    }
    if (required) {
      await this.reload()
      const known = key === null ? undefined : this.#byHash.get(lookUpOf(key))
      const isFull = known?.holder.role === 'admin' && known.holder.scope === null
      if (!isFull || known.expiresAtMs !== null) {
        throw new RewardOpsError(
          'admin_key_needed',
          key === null
            ? 'No key was given.'
            : known === undefined
              ? 'The key is unknown.'
              : isFull
                ? 'The key expires, and no admin could sign in after that.'
                : known.holder.role === 'admin'
                  ? 'The key is read-only.'
                  : `The key has the role ${known.holder.role}.`,
        )
      }
    }
    await writeSetting(this.#db, REQUIRED, required && this.#loopbackOnly, by)
    await this.#notify()
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

  async #notify(): Promise<void> {
    await notify(this.#db.pool, 'keysChanged')
    await this.reload()
  }

  async #read(): Promise<void> {
    const [rows, required, sessions] = await Promise.all([
      livingKeys(this.#db, MAX_KEYS),
      readSetting<boolean>(this.#db, REQUIRED),
      this.#sessions.read(),
    ])
    const byHash = new Map<string, RingKey>()
    const byId = new Map<number, RingKey>()
    const now = this.#nowMs()
    const add = (row: ApiKeyRow, hash: Buffer, expiresAt: Date | null): RingKey => {
      const hex = hash.toString('hex')
      const known = this.#byHash.get(hex)
      const sameRole = known?.holder.role === row.role
      if (!sameRole && known !== undefined) endKey(known.end, 'The role of the key has changed.')
      // A new name or expiry does not invalidate the key, so its running calls continue.
      const goesOn = sameRole && known?.end.signal.aborted === false
      const kept = toRingKey(row, expiresAt, goesOn ? known.end : undefined)
      if (kept.expiresAtMs !== null && kept.expiresAtMs <= now) endKey(kept.end, EXPIRED)
      byHash.set(hex, kept)
      return kept
    }
    for (const row of rows) {
      byId.set(row.id, add(row, row.hash, row.expires_at))
      const { previous_hash: previous, previous_until: until } = row
      if (previous === null || until === null) continue
      add(row, previous, row.expires_at !== null && row.expires_at < until ? row.expires_at : until)
    }
    const gone = [...this.#byHash].filter(([hex]) => !byHash.has(hex))
    const turnedOn = !this.#required && required?.value === true
    this.#byHash = byHash
    this.#byId = byId
    this.#required = required?.value === true
    for (const [, key] of gone) endKey(key.end, 'The key was revoked.')
    if (turnedOn) this.#onRequired()
    this.#sessions.take(sessions, (key) => {
      if (!('keyId' in key)) return this.#configured.get(key.configuredHash) ?? null
      const { holder } = byId.get(key.keyId) ?? {}
      return holder === undefined || holder.ended.aborted ? null : holder
    })
  }
}

function newKey() {
  const key = `rwo_${randomBytes(32).toString('base64url')}`
  const stored = {
    hash: Buffer.from(lookUpOf(key), 'hex'),
    sessionHash: Buffer.from(lookUpOf(earlierCookie(key)), 'hex'),
    prefix: key.slice(0, 8),
  }
  return { key, stored }
}

function toRingKey(row: ApiKeyRow, expiresAt: Date | null, end = new AbortController()): RingKey {
  const { access, run_prefix: runPrefix } = row
  return {
    end,
    holder: {
      name: row.name,
      role: row.role as Role,
      keyId: row.id,
      scope: access === 'full' && runPrefix === null ? null : { access, runPrefix },
      hasKey: true,
      session: null,
      ended: end.signal,
    },
    expiresAtMs: expiresAt?.getTime() ?? null,
    usedAtMs: row.last_used_at?.getTime() ?? 0,
  }
}

function toDto(row: ApiKeyRow, nowMs: number): ApiKeyDto {
  const expired = row.expires_at !== null && row.expires_at.getTime() <= nowMs
  return {
    id: `k${row.id}`,
    name: row.name,
    role: row.role,
    access: row.access,
    runPrefix: row.run_prefix,
    prefix: row.prefix,
    createdAt: row.created_at.toISOString(),
    createdBy: row.created_by,
    expiresAt: row.expires_at?.toISOString() ?? null,
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    revokedAt: row.revoked_at?.toISOString() ?? null,
    revokedBy: row.revoked_by,
    previousUntil:
      row.revoked_at === null && row.previous_until !== null && row.previous_until.getTime() > nowMs
        ? row.previous_until.toISOString()
        : null,
    state: row.revoked_at !== null ? 'revoked' : expired ? 'expired' : 'active',
  }
}

function numberOf(id: string): number {
  return Number(id.slice(1))
}

function noKey(id: string): RewardOpsError {
  return new RewardOpsError('key_not_found', `There is no active key ${id}.`)
}
