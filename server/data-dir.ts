import { chmodSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join, parse, sep } from 'node:path'

/**
 * Creates the data folder, and removes other users' permissions to list, read and write it. Their permission to enter
 * it may remain, because embedded Postgres and functions run as other users if the service runs as root.
 * @throws Error if the service runs as root and a symbolic link of another user is on the path or in the folder
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
