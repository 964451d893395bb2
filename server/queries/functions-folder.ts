import { type Dirent, existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import type { FunctionFileDto } from '../contract/rewards.ts'
import { Memo } from '../memo.ts'
import { readSource } from '../rewards/functions/read-source.ts'

const MAX_FILES = 200
const DEEPEST = 4
const MAX_FILE_BYTES = 1 << 20

const SOURCE = /\.[cm]?[jt]s$/

/**
 * Time for which the listing is cached. It is short, because the imports of a file may change while the file stays the
 * same.
 */
const TTL_MS = 2_000

interface Listing {
  exists: boolean
  files: FunctionFileDto[]
  hasMore: boolean
}

export class FunctionsFolder {
  readonly folder: string
  readonly #memo = new Memo<Listing>(TTL_MS)

  constructor(folder: string) {
    this.folder = folder
  }

  /** The source files, sorted by path. They are never run. */
  list(): Promise<Listing> {
    return this.#memo.get('', () => this.#list())
  }

  async #list(): Promise<Listing> {
    if (!existsSync(this.folder)) return { exists: false, files: [], hasMore: false }
    const paths: string[] = []
    await this.#walk(this.folder, 0, paths)
    paths.sort()
    const files: FunctionFileDto[] = []
    for (const path of paths.slice(0, MAX_FILES)) {
      const file = await this.#read(path)
      if (file) files.push(file)
    }
    return { exists: true, files, hasMore: paths.length > MAX_FILES }
  }

  async #walk(folder: string, depth: number, paths: string[]): Promise<void> {
    if (paths.length > MAX_FILES) return
    let entries: Dirent[]
    try {
      entries = await readdir(folder, { withFileTypes: true })
    } catch {
      // The folder was removed in the meantime or cannot be read.
      return
    }
    for (const entry of entries) {
      const path = join(folder, entry.name)
      if (entry.name.startsWith('.') || entry.name === 'node_modules') continue
      if (entry.isDirectory() && depth < DEEPEST) await this.#walk(path, depth + 1, paths)
      else if (entry.isFile() && SOURCE.test(entry.name) && !entry.name.endsWith('.d.ts')) {
        paths.push(path)
      }
    }
  }

  async #read(path: string): Promise<FunctionFileDto | null> {
    try {
      const { size, mtimeMs } = await stat(path)
      const text = size > MAX_FILE_BYTES ? null : await readFile(path, 'utf8')
      const inside = relative(this.folder, path).split(sep).join('/')
      return {
        path: inside,
        ...(await this.#versionOf(inside)),
        bytes: size,
        changedAt: new Date(mtimeMs).toISOString(),
        exports: text === null ? null : exportsOf(text),
      }
    } catch {
      // The file was removed in the meantime or cannot be read.
      return null
    }
  }

  async #versionOf(path: string): Promise<Pick<FunctionFileDto, 'hash' | 'problem'>> {
    try {
      const { hash } = await readSource('the file', path, this.folder)
      return { hash: hash.slice(0, 12), problem: null }
    } catch (error) {
      return { hash: null, problem: (error as Error).message }
    }
  }
}

const DECLARED =
  /^[ \t]*export\s+(?:async\s+)?(?:function\s*\*?|class|const|let|var)\s+([\p{L}$_][\p{L}\p{N}$_]*)/gmu
const DEFAULT = /^[ \t]*export\s+default\b/m
const LISTED = /^[ \t]*export\s*\{([^}]{0,4000})\}/gm
const COMMON = /^[ \t]*(?:module\.)?exports\.([\p{L}$_][\p{L}\p{N}$_]*)\s*=/gmu

/** The exported names in a module's text, found without running it. */
export function exportsOf(source: string): string[] {
  const names = new Set<string>()
  if (DEFAULT.test(source)) names.add('default')
  for (const [, name = ''] of source.matchAll(DECLARED)) names.add(name)
  for (const [, list = ''] of source.matchAll(LISTED)) {
    for (const part of list.split(',')) {
      const name = /(?:\bas\s+)?([\w$]+)\s*$/.exec(part.trim())?.[1]
      if (name !== undefined && !part.trim().startsWith('type ')) names.add(name)
    }
  }
  for (const [, name = ''] of source.matchAll(COMMON)) names.add(name)
  return [...names]
}
