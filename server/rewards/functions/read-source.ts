import { createHash } from 'node:crypto'
import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, relative, resolve, sep } from 'node:path'
import { RewardOpsError } from '../../errors.ts'
import { suggest } from '../nearest-name.ts'
import type { FunctionSource } from './function-source.ts'

/** Maximum number of files and bytes of a function with its imports, which are stored in one database row. */
const MAX_FILES = 200
const MAX_BYTES = 4 << 20
const RUNNABLE = /\.[cm]?[jt]s$/
const ENDINGS = ['', '.js', '.cjs', '.json', '.ts', '.cts', '/index.js', '/index.cjs', '/index.ts']
const MAX_PROPOSED = 100

/**
 * Reads a function's file and every file that it imports by a relative path, and hashes their content. Files opened
 * by `new URL('./words.txt', import.meta.url)` are included; packages are not.
 * @param at the path within the request, e.g. `reward.function`
 * @throws RewardOpsError `function_outside_folder`, also for a link to a file outside; `invalid_function`
 */
export async function readSource(
  at: string,
  path: string,
  functionsDir: string,
): Promise<FunctionSource> {
  const entry = pathInside(at, path, functionsDir)
  if (!RUNNABLE.test(entry)) {
    throw new RewardOpsError(
      'invalid_function',
      `${at}.path "${path}" is neither TypeScript nor JavaScript.`,
      entry.endsWith('.py')
        ? {
            hint: `Serve it with rewardops serve-reward ${path}:compute_score, and name it in reward.model.`,
          }
        : {},
    )
  }
  const reading = new Reading(at, functionsDir, await rootOf(functionsDir))
  await reading.read(entry, null)
  if (await reading.exists('package.json')) await reading.read('package.json', null)
  const sorted = [...reading.files].sort(([a], [b]) => (a < b ? -1 : 1))
  const hash = createHash('sha256')
    .update(JSON.stringify([entry, sorted]))
    .digest('hex')
  return { hash, path: entry, files: Object.fromEntries(sorted) }
}

/** The path relative to the folder, with `/`. Throws `function_outside_folder`. */
function pathInside(at: string, path: string, functionsDir: string): string {
  const inside = relative(functionsDir, resolve(functionsDir, path))
  if (
    path.includes('\u0000') ||
    isAbsolute(path) ||
    inside === '' ||
    inside === '..' ||
    inside.startsWith(`..${sep}`) ||
    isAbsolute(inside)
  ) {
    throw outside(at, path)
  }
  return inside.split(sep).join('/')
}

function outside(at: string, path: string): RewardOpsError {
  return new RewardOpsError(
    'function_outside_folder',
    `${at}.path "${path}" lies outside the functions folder.`,
  )
}

async function rootOf(functionsDir: string): Promise<string> {
  try {
    return await realpath(functionsDir)
  } catch {
    throw new RewardOpsError('invalid_function', 'The functions folder does not exist.', {
      hint: 'Create the folder that REWARDOPS_FUNCTIONS_DIR names, or set it to another one.',
    })
  }
}

class Reading {
  readonly files = new Map<string, FunctionSource['files'][string]>()
  readonly #at: string
  readonly #dir: string
  readonly #root: string
  #bytes = 0

  constructor(at: string, dir: string, root: string) {
    this.#at = at
    this.#dir = dir
    this.#root = root
  }

  async exists(path: string): Promise<boolean> {
    return stat(join(this.#dir, path)).then(
      (found) => found.isFile(),
      () => false,
    )
  }

  /** Reads a file and its imports. @param from the importing file, or null for the function's own file */
  async read(path: string, from: string | null): Promise<void> {
    if (this.files.has(path)) return
    const bytes = await this.#bytesOf(path, from)
    this.#bytes += bytes.length
    if (this.files.size >= MAX_FILES || this.#bytes > MAX_BYTES) {
      throw new RewardOpsError(
        'invalid_function',
        `${this.#at}.path: the file and its imports exceed ${MAX_FILES} files or ${MAX_BYTES >> 20} MiB.`,
      )
    }
    const text = bytes.toString('utf8')
    const isText = Buffer.from(text, 'utf8').equals(bytes)
    this.files.set(path, isText ? text : { base64: bytes.toString('base64') })
    if (!isText || !RUNNABLE.test(path)) return
    for (const { specifier, kind } of await importsOf(path, text)) {
      await this.#follow(path, specifier, kind)
    }
  }

  async #follow(from: string, specifier: string, kind: ImportKind): Promise<void> {
    if (!/^\.{1,2}(\/|$)/.test(specifier)) return
    // Two specifiers that differ only in their query or fragment refer to the same file.
    const name = normalize(join(dirname(from), specifier.replace(/[?#].*$/, '')))
      .split(sep)
      .join('/')
    const path = kind === 'import' ? decode(name) : name
    if (path === '..' || path.startsWith('../')) throw outside(this.#at, `${from} → ${specifier}`)
    for (const ending of kind === 'require' ? ENDINGS : ['']) {
      if (await this.exists(path + ending)) return this.read(path + ending, from)
    }
    // A file that is opened by URL may be created at run time, and a `require` may be optional.
    if (kind !== 'import') return
    throw new RewardOpsError(
      'invalid_function',
      `${from} imports "${specifier}", which does not exist.`,
    )
  }

  async #bytesOf(path: string, from: string | null): Promise<Buffer> {
    let real: string
    try {
      real = await realpath(join(this.#dir, path))
    } catch {
      const known = await this.#known()
      throw new RewardOpsError(
        'invalid_function',
        `${this.#at}.path "${path}" is not in the functions folder. ${suggest(path, known)}`,
      )
    }
    const inside = relative(this.#root, real)
    if (inside.startsWith('..') || isAbsolute(inside)) {
      throw outside(this.#at, from === null ? path : `${from} → ${path}`)
    }
    try {
      return await readFile(real)
    } catch (error) {
      throw new RewardOpsError(
        'invalid_function',
        `${this.#at}.path "${path}" cannot be read: ${(error as NodeJS.ErrnoException).code}.`,
      )
    }
  }

  async #known(): Promise<string[]> {
    const names = await readdir(this.#dir, { recursive: true }).catch(() => [])
    return names
      .filter((name) => RUNNABLE.test(name) && !name.includes('node_modules'))
      .sort()
      .slice(0, MAX_PROPOSED)
  }
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/**
 * The file of an `import` must exist. The file of a `require` or a `url` may be missing. A `require` may omit the
 * file's ending.
 */
type ImportKind = 'import' | 'require' | 'url'

interface Imported {
  specifier: string
  kind: ImportKind
}

/** Maximum number of files whose imports are cached. Every batch needs the imports of its functions. */
const MAX_CACHED = 1_000
/** Above this size, building the syntax tree (1 ms per KiB) would block the server's event loop for too long. */
const MAX_TREE_CHARS = 100_000
const known = new Map<string, Imported[]>()

/** The modules that a file imports; computed names are not found. Throws `invalid_function`. */
async function importsOf(path: string, text: string): Promise<Imported[]> {
  const key = createHash('sha256').update(`${path}\n${text}`).digest('base64')
  let found = known.get(key)
  if (found === undefined) {
    found = await parseImports(path, text)
    if (known.size >= MAX_CACHED) known.clear()
    known.set(key, found)
  }
  return found
}

async function parseImports(path: string, text: string): Promise<Imported[]> {
  // Loaded on first use, because it is a native library of some megabytes.
  const { parse, Visitor } = await import('rolldown/utils')
  const parsed = await parse(path, text)
  const { module, errors } = parsed
  const [wrong] = errors
  if (wrong !== undefined) {
    const label = wrong.labels?.[0]
    const line = label === undefined ? '' : `:${text.slice(0, label.start).split('\n').length}`
    throw new RewardOpsError('invalid_function', `${path}${line}: ${wrong.message}`)
  }
  const found: Imported[] = []
  for (const { moduleRequest, entries } of module.staticImports) {
    // Type imports disappear when the types are stripped.
    if (entries.length > 0 && entries.every((entry) => entry.isType)) continue
    found.push({ specifier: moduleRequest.value, kind: 'import' })
  }
  for (const { entries } of module.staticExports) {
    const request = entries.find((entry) => entry.moduleRequest && !entry.isType)?.moduleRequest
    if (request) found.push({ specifier: request.value, kind: 'import' })
  }
  if (!/\bimport\s*\(|\brequire\b|\bURL\b/.test(text)) return found
  if (text.length > MAX_TREE_CHARS) return [...found, ...namedInText(text)]
  new Visitor({
    ImportExpression({ source }) {
      if (source.type !== 'Literal' || typeof source.value !== 'string') return
      found.push({ specifier: source.value, kind: 'import' })
    },
    CallExpression({ callee, arguments: [first] }) {
      if (callee.type !== 'Identifier' || callee.name !== 'require') return
      if (first?.type !== 'Literal' || typeof first.value !== 'string') return
      found.push({ specifier: first.value, kind: 'require' })
    },
    NewExpression({ callee, arguments: [first, second] }) {
      if (callee.type !== 'Identifier' || callee.name !== 'URL' || second === undefined) return
      if (first?.type !== 'Literal' || typeof first.value !== 'string') return
      found.push({ specifier: first.value, kind: 'url' })
    },
  }).visit(parsed.program)
  return found
}

const NAMED = /\b(?:import|require|URL)\s*\(\s*(["'])(\.{1,2}\/[^"'\n]{1,500})\1/g

/**
 * Finds import paths in the text of a large file. Paths in comments and strings count too, so a file that is found in
 * this way may be missing.
 */
function namedInText(text: string): Imported[] {
  return [...text.matchAll(NAMED)].map((match) => ({
    specifier: match[2] as string,
    kind: 'require',
  }))
}
