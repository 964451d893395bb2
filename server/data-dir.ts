import { chmodSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join, parse, sep } from 'node:path'

/**
 * Creates the data folder, and takes the right to list, read and write it from all other users. They may keep the right
 * to pass through it, because embedded Postgres and functions run as other users where the service runs as root.
 * @throws Error as root, if another user's link would lead files of the service to another place
 */
export function prepareDataDir(dataDir: string): void {
  const uid = process.getuid?.()
  if (uid === 0) refuseLinksOfOthers(dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const { mode, uid: owner } = statSync(dataDir)
  if (owner === uid && (mode & 0o066) !== 0) chmodSync(dataDir, mode & 0o7711)
  if (uid === 0) for (const name of readdirSync(dataDir)) refuseLink(join(dataDir, name))
}

function refuseLinksOfOthers(path: string): void {
  const { root } = parse(path)
  let at = root
  for (const name of path.slice(root.length).split(sep)) {
    at = join(at, name)
    refuseLink(at)
  }
}

function refuseLink(path: string): void {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  if (entry?.isSymbolicLink() && entry.uid !== 0) {
    throw new Error(
      `${path} is a link of user id ${entry.uid}, and the service runs as root. Give the link to root, or set REWARDOPS_DATA_DIR to the folder itself.`,
    )
  }
}
