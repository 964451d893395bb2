import { z } from 'zod'
import { ROLES, type Role } from './roles.ts'

/** A stored key's number, as `k7`. */
export const KeyId = z.string().regex(/^k\d{1,9}$/, 'must be a key id such as k7')

const KeyName = z
  .string()
  .trim()
  .min(1, 'a name is needed')
  .max(80)
  // Written into lists and sentences; the names of keys from the environment are not given twice.
  .regex(/^[^\p{Cc}]*$/u, 'control characters are not allowed')
  .refine((name) => !/^(local|policy|configured key.*)$/i.test(name), {
    message: 'local, policy and configured key … are taken by the service itself',
  })

/** `keys.create`. */
export const CreateKeyInput = z.strictObject({
  name: KeyName,
  role: z.enum(ROLES),
  /** Days until expiry; null: never. */
  expiresInDays: z.int().min(1).max(3_650).nullable().default(null),
})
export type CreateKeyInput = z.infer<typeof CreateKeyInput>

/** `keys.rename`. */
export const RenameKeyInput = z.strictObject({ id: KeyId, name: KeyName })
/** `keys.revoke`. */
export const KeyRef = z.strictObject({ id: KeyId })
/** `keys.require`: the key proves, where it is needed, that an admin's key was kept. */
export const RequireKeysInput = z.strictObject({
  required: z.boolean(),
  key: z.string().min(1).max(4_096).nullable().default(null),
})
export type RequireKeysInput = z.infer<typeof RequireKeysInput>

/** A stored key, without the key. Times are ISO 8601. */
export interface ApiKeyDto {
  id: string
  name: string
  role: Role
  /** The first letters of the key. */
  prefix: string
  createdAt: string
  createdBy: string
  expiresAt: string | null
  /** The last use, exact to a minute; null: never. */
  lastUsedAt: string | null
  revokedAt: string | null
  revokedBy: string | null
  /** A key that is revoked and expired is `revoked`. */
  state: 'active' | 'expired' | 'revoked'
}

/** `keys.list`: how access is decided, and the stored keys, those that work first. */
export interface KeysDto {
  /** Whether a call needs a key at present. */
  requiresKey: boolean
  /** Keys of REWARDOPS_API_KEYS: admins, named by their place, not changed here. */
  configured: { name: string }[]
  /** Where the service listens can be reached from this machine only. */
  loopbackOnly: boolean
  keys: ApiKeyDto[]
  /** There are more revoked and ended ones than are listed. */
  hasMore: boolean
}

/** A key that was made: told this once. */
export interface CreatedKeyDto extends ApiKeyDto {
  key: string
}
