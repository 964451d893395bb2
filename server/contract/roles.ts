// This file does not use zod, because every page imports the file and zod would add 30 KB to a page's first load.

/** Roles in ascending order. */
export const ROLES = ['viewer', 'trainer', 'admin'] as const

/** The permissions of keys within their roles. */
export const KEY_ACCESS = ['full', 'submit', 'read'] as const

/**
 * The permissions of a key within its role. `full`: all of them. `submit`: submit and score samples, and read their
 * results. `read`: read and export, without changing anything.
 */
export type KeyAccess = (typeof KEY_ACCESS)[number]

/**
 * The role of a caller. A viewer reads; a trainer also submits rollouts and annotates samples; an admin also changes
 * servers, keys, limits, monitors and retention.
 */
export type Role = (typeof ROLES)[number]

/** The caller. If no API keys are required, every process on this machine is `local`, with the role admin. */
export interface Actor {
  /** The name of the key, as the audit log shows it. */
  name: string
  role: Role
}

/** Whether a role includes another. Each role includes the lower ones. */
export function mayDo(has: Role, needed: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needed)
}
