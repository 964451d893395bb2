import { lchownSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseStartError } from './start-error.ts'

/** The user that runs Postgres if this process is root, because Postgres refuses to run as root. */
export interface Account {
  name: string
  uid: number
  gid: number
}

/**
 * The account that runs Postgres; null if this process is not root and runs it itself. An existing data folder keeps
 * its owner; otherwise the account is `postgres` if that user exists, else `nobody`. The account must be in
 * /etc/passwd: Postgres stops with "could not look up effective user ID" for any other.
 * @param folder the data folder, which may not exist yet
 */
export function accountForPostgres(folder: string): Account | null {
  if (process.getuid?.() !== 0) return null
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((account) => Number.isInteger(account.uid) && account.uid > 0)
  const owner = lstatSync(folder, { throwIfNoEntry: false })?.uid
  const chosen =
    accounts.find((account) => account.uid === owner) ??
    accounts.find((account) => account.name === 'postgres') ??
    accounts.find((account) => account.name === 'nobody')
  if (!chosen) {
    throw new DatabaseStartError(
      'start_failed',
      'Postgres refuses to run as root, and /etc/passwd has no user "postgres" or "nobody". ' +
        'Start as another user, or set DATABASE_URL.',
    )
  }
  return chosen
}

export function spawnAs(account: Account | null): { uid?: number; gid?: number } {
  return account === null ? {} : { uid: account.uid, gid: account.gid }
}

/**
 * Gives a folder and its contents to an account. The folder itself is changed last: if it already belongs to the
 * account, its contents do too, and nothing is traversed.
 */
export function giveTo(account: Account | null, path: string): void {
  if (account === null) return
  const entry = lstatSync(path)
  if (entry.uid === account.uid) return
  if (entry.isDirectory()) for (const name of readdirSync(path)) giveTo(account, join(path, name))
  lchownSync(path, account.uid, account.gid)
}
