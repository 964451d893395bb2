import { randomUUID } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { FunctionSource, FunctionSources } from './function-source.ts'

export interface VersionFolders {
  /** The folder `functions` in the data folder. It has a subfolder for each version, named by the version's hash. */
  versionsDir: string
  /** The user's functions folder, whose `node_modules` the versions use; the folder may be missing. */
  functionsDir: string
  sources: FunctionSources
}

/**
 * Versions of functions as files. A version's folder appears only when it is complete, and never changes, so later
 * edits of the user's file do not affect it.
 */
export class FunctionVersions {
  readonly #folders: VersionFolders
  readonly #unpacking = new Map<string, Promise<string>>()

  constructor(folders: VersionFolders) {
    this.#folders = folders
  }

  /** @throws Error if the version is neither on disk nor stored */
  unpacked(hash: string): Promise<string> {
    let dir = this.#unpacking.get(hash)
    if (dir === undefined) {
      dir = this.#find(hash)
      this.#unpacking.set(hash, dir)
      dir.catch(() => this.#unpacking.delete(hash))
    }
    return dir
  }

  async #find(hash: string): Promise<string> {
    const known = await findUnpacked(hash, this.#folders)
    if (known !== null) return known
    const source = await this.#folders.sources(hash)
    if (source === null) throw new Error(`its version ${hash.slice(0, 12)} is not stored`)
    return unpack(source, this.#folders)
  }
}

/** Pattern of a version folder's name, also while the folder is being written. */
const VERSION = String.raw`\.?[0-9a-f]{64}(?:-[0-9a-f-]{36})?`

/**
 * Makes the paths in a text from user code, such as an error, relative to the functions folder, because the text is
 * shown to callers without access to the machine.
 */
export function withRelativePaths(
  text: string,
  { versionsDir, functionsDir }: Pick<VersionFolders, 'versionsDir' | 'functionsDir'>,
): string {
  if (!text.includes('/')) return text
  const patterns = [`${formsOf(versionsDir)}(?:/${VERSION})?`, formsOf(functionsDir)]
  return text.replace(new RegExp(`(?:${patterns.join('|')})(/|(?![\\w.-]))`, 'g'), (_, slash) =>
    slash === '' ? '.' : '',
  )
}

/** Cached real paths of folders, because every failed sample of a batch may need them. */
const realPaths = new Map<string, string>()

function realPathOf(folder: string): string {
  const known = realPaths.get(folder)
  if (known !== undefined) return known
  if (!existsSync(folder)) return folder
  const real = realpathSync(folder)
  realPaths.set(folder, real)
  return real
}

/** Returns a pattern for the forms in which errors name a folder: as given and as its real path, each also as a URL. */
function formsOf(folder: string): string {
  const forms = [folder, realPathOf(folder)]
    .flatMap((path) => [pathToFileURL(path).href, path])
    .map((form) => form.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return `(?:${forms.join('|')})`
}

/**
 * Links a version's `node_modules` to that of the functions folder, which may appear later: users install a package
 * after a batch was refused for lack of it. Versions of earlier releases may have no link. A failure is ignored,
 * because the function may need no packages.
 */
async function linkModules(
  dir: string,
  { functionsDir }: Pick<VersionFolders, 'functionsDir'>,
): Promise<void> {
  await symlink(join(functionsDir, 'node_modules'), join(dir, 'node_modules')).catch(() => {})
}

/** Returns the folder of a version that is on disk, with its link to `node_modules`, or null. */
async function findUnpacked(
  hash: string,
  folders: Pick<VersionFolders, 'versionsDir' | 'functionsDir'>,
): Promise<string | null> {
  const dir = join(folders.versionsDir, hash)
  if (!existsSync(dir)) return null
  await linkModules(dir, folders)
  return dir
}

/** Writes a version's files to a temporary folder and renames it in one step, unless the version exists. */
export async function unpack(
  source: FunctionSource,
  folders: Pick<VersionFolders, 'versionsDir' | 'functionsDir'>,
): Promise<string> {
  const known = await findUnpacked(source.hash, folders)
  if (known !== null) return known
  const { versionsDir } = folders
  const dir = join(versionsDir, source.hash)
  const before = join(versionsDir, `.${source.hash}-${randomUUID()}`)
  try {
    // Without this package.json, one in a parent folder would set the module type.
    const files: FunctionSource['files'] = { 'package.json': '{}\n', ...source.files }
    for (const [path, content] of Object.entries(files)) {
      const file = join(before, path)
      await mkdir(dirname(file), { recursive: true })
      const bytes = typeof content === 'string' ? content : Buffer.from(content.base64, 'base64')
      await writeFile(file, bytes)
      // Function processes may run as another user, and the umask may give access only to the owner.
      await chmod(file, 0o644)
      for (let folder = dirname(file); folder.startsWith(before); folder = dirname(folder)) {
        await chmod(folder, 0o755)
      }
    }
    await linkModules(before, folders)
    await rename(before, dir)
  } catch (error) {
    await rm(before, { recursive: true, force: true })
    // The folder exists if another process has unpacked the version in the meantime.
    if (!existsSync(dir)) throw error
  }
  return dir
}
