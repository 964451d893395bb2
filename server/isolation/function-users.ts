import { randomInt } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'

/**
 * The user ids that a service running as root gives to processes of user code: those that systemd reserves for services
 * without an account (`DynamicUser=`), so no person and no package has one of these ids.
 */
const FIRST_UID = 61_184
const LAST_UID = 65_519

export function isFunctionUser(uid: number): boolean {
  return uid >= FIRST_UID && uid <= LAST_UID
}

/**
 * Returns a user id that no process has. With separate ids, function processes cannot signal each other, or read each
 * other's files and /proc entries. The group id is the same number. Linux only.
 */
export function freeFunctionUser(): { uid: number; gid: number } {
  const taken = new Set<number>()
  for (const pid of readdirSync('/proc')) {
    if (/^\d+$/.test(pid)) {
      const uid = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid
      if (uid !== undefined) taken.add(uid)
    }
  }
  // The id is random, because another worker may choose one at the same moment.
  for (;;) {
    const uid = randomInt(FIRST_UID, LAST_UID + 1)
    if (!taken.has(uid)) return { uid, gid: uid }
  }
}
