import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SettingInForce } from '../config.ts'
import type { AboutDto } from '../contract/about.ts'
import { mayDo, type Role } from '../contract/roles.ts'
import { Memo } from '../memo.ts'
import type { Database } from '../store/database.ts'
import { databaseFacts, tableSizes } from '../store/sql/database-facts.ts'

/** Time for which a report is cached, in ms, because measuring a large data folder is slow. */
const TTL_MS = 30_000
const MAX_FILES = 200_000
const TABLES = 12

export class AboutService {
  readonly #db: Database
  readonly #of: {
    version: string
    embedded: boolean
    dataDir: string
    startedAt: Date
    settings: readonly SettingInForce[]
    functionIsolation: AboutDto['functionIsolation']
  }
  readonly #memo = new Memo<Omit<AboutDto, 'settings'>>(TTL_MS)

  constructor(
    db: Database,
    of: {
      version: string
      embedded: boolean
      dataDir: string
      startedAt: Date
      settings: readonly SettingInForce[]
      functionIsolation: AboutDto['functionIsolation']
    },
  ) {
    this.#db = db
    this.#of = of
  }

  /** Returns the data of the About page. Only admins see folders of the machine. */
  async get(role: Role): Promise<AboutDto> {
    const isAdmin = mayDo(role, 'admin')
    const about = await this.#read()
    const settings = this.#of.settings.map(({ isPath, ...setting }) =>
      isAdmin || !isPath || setting.isDefault ? setting : { ...setting, value: 'set' },
    )
    if (isAdmin) return { ...about, settings }
    const functionIsolation = { ...about.functionIsolation, missing: [] }
    return { ...about, dataDir: null, functionIsolation, settings }
  }

  #read(): Promise<Omit<AboutDto, 'settings'>> {
    return this.#memo.get('', async () => {
      const { version, embedded, dataDir, startedAt, functionIsolation } = this.#of
      const [facts, tables, dataDirBytes] = await Promise.all([
        databaseFacts(this.#db),
        tableSizes(this.#db, TABLES),
        folderBytes(dataDir),
      ])
      return {
        version,
        nodeVersion: process.version,
        postgresVersion: facts.version,
        embedded,
        startedAt: startedAt.toISOString(),
        databaseBytes: facts.bytes,
        dataDirBytes,
        dataDir,
        functionIsolation,
        tables,
      }
    })
  }
}

/** Bytes of all files in a folder; null if some cannot be read, or if there are more than `MAX_FILES`. */
export async function folderBytes(folder: string): Promise<number | null> {
  let bytes = 0
  let files = 0
  const folders = [folder]
  try {
    for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
      // A database's files and folders may be removed while they are counted.
      for (const entry of await readdir(next, { withFileTypes: true }).catch(unlessGone([]))) {
        if (++files > MAX_FILES) return null
        const path = join(next, entry.name)
        if (entry.isDirectory()) folders.push(path)
        else if (entry.isFile()) bytes += await stat(path).then(({ size }) => size, unlessGone(0))
      }
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return null
    throw error
  }
  return bytes
}

function unlessGone<T>(value: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === 'ENOENT') return value
    throw error
  }
}
