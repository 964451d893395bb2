import { z } from 'zod'
import { KEY_ACCESS, type KeyAccess, ROLES, type Role } from './roles.ts'

/** The id of a stored key, such as `k7`. */
export const KeyId = z.string().regex(/^k\d{1,9}$/, 'must be a key id such as k7')

const KeyName = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(80)
  .regex(/^[^\p{Cc}]*$/u, 'control characters are not allowed')
  .refine((name) => !/^(local|policy|unknown|configured key.*)$/i.test(name), {
    message: 'local, policy, unknown and configured key … are reserved',
  })

/** The input of `keys.create`. */
export const CreateKeyInput = z
  .strictObject({
    name: KeyName,
    role: z.enum(ROLES),
    /** Limits the procedures that the key may call. `submit` needs the role trainer. */
    access: z.enum(KEY_ACCESS).default('full'),
    /**
     * Limits the key to runs whose names begin with this text. Null means every run. Keys of the role admin cannot have
     * a prefix.
     */
    runPrefix: z
      .string()
      .min(1)
      .max(256)
      .regex(/^\S[^\p{Cc}]*$/u, 'must not begin with a space or contain control characters')
      .nullable()
      .default(null),
    /** Days until expiry. Null means never. */
    expiresInDays: z.int().min(1).max(3_650).nullable().default(null),
  })
  .refine(({ role, access }) => access !== 'submit' || role === 'trainer', {
    message: 'submit needs the role trainer',
    path: ['access'],
  })
  .refine(({ role, runPrefix }) => runPrefix === null || role !== 'admin', {
    message: 'an admin key covers every run',
    path: ['runPrefix'],
  })
export type CreateKeyInput = z.infer<typeof CreateKeyInput>

/** The input of `keys.rename`. */
export const RenameKeyInput = z.strictObject({ id: KeyId, name: KeyName })
/** The input of `keys.revoke`. */
export const KeyRef = z.strictObject({ id: KeyId })
/** The input of `keys.rotate`. */
export const RotateKeyInput = z.strictObject({
  id: KeyId,
  /** Hours until the previous key expires, up to 30 days. With 0, it expires immediately. */
  overlapHours: z.number().min(0).max(720).default(24),
})
export type RotateKeyInput = z.infer<typeof RotateKeyInput>

/** The input of `keys.require`. */
export const RequireKeysInput = z.strictObject({
  /** True if every call requires a key. */
  required: z.boolean(),
  /** An admin key without expiry, as proof that an admin can still sign in. Needed if `required` is true. */
  key: z.string().min(1).max(4_096).nullable().default(null),
})
export type RequireKeysInput = z.infer<typeof RequireKeysInput>

/** A stored key, without its secret text. Times are ISO 8601. */
export interface ApiKeyDto {
  id: string
  name: string
  role: Role
  access: KeyAccess
  /** The key is limited to runs whose names begin with this text. Null means every run. */
  runPrefix: string | null
  /** The first eight characters of the key. */
  prefix: string
  createdAt: string
  createdBy: string
  expiresAt: string | null
  /** The last use, exact to a minute. Null if the key was never used. */
  lastUsedAt: string | null
  revokedAt: string | null
  revokedBy: string | null
  /** Time at which the previous key expires; null if it has expired, or if the key was never rotated. */
  previousUntil: string | null
  /** A key that is both revoked and expired is `revoked`. */
  state: 'active' | 'expired' | 'revoked'
}

/** The output of `keys.list`: whether keys are required, and the stored keys, active keys first. */
export interface KeysDto {
  /** True if every call requires a key. */
  requiresKey: boolean
  /** The keys of REWARDOPS_API_KEYS, named by their position. The API cannot change them. */
  configured: { name: string; role: Role }[]
  /** True if the service listens on a loopback address. */
  loopbackOnly: boolean
  keys: ApiKeyDto[]
  /** True if more revoked and expired keys exist than are listed. */
  hasMore: boolean
}

/** A new key. Only this answer contains `key`. */
export interface CreatedKeyDto extends ApiKeyDto {
  key: string
}

const LoginSessionId = z.string().regex(/^l\d{1,9}$/, 'must be a session id such as l7')

/** The input of `sessions.end`. */
export const LoginSessionRef = z.strictObject({ id: LoginSessionId })

/** A browser's login with a key. Times are ISO 8601. */
export interface LoginSessionDto {
  id: string
  /** The name of the session's key. */
  name: string
  role: Role
  /** The client's IP address at sign-in. */
  address: string
  /** The browser's User-Agent header at sign-in. */
  userAgent: string
  createdAt: string
  /** The last use, exact to a minute. */
  lastUsedAt: string
  /** The session ends at this time unless it is used earlier. */
  expiresAt: string
  /** True for the session that makes this call. */
  isOwn: boolean
}
