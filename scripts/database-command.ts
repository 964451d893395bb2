import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { BackupError } from '../server/store/backup/archive.ts'
import { MigrationError } from '../server/store/migrate.ts'
import { DatabaseStartError } from '../server/store/postgres/start-error.ts'

/**
 * Runs `npm run backup` or `npm run restore`, whose arguments are a file and a flag. Exit codes: 0 success, 1 refused or
 * failed, 2 wrong arguments, 130 Ctrl-C or SIGTERM.
 * @param work gets the absolute path of the file, and whether the flag is given
 */
export async function runCommand(
  help: string,
  flag: string,
  work: (path: string, isFlagged: boolean, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => stopping.abort())
  }
  const given = read(help, flag)
  if (given === null) return
  try {
    await work(given.path, given.isFlagged, stopping.signal)
  } catch (error) {
    process.exitCode = stopping.signal.aborted ? 130 : 1
    if (stopping.signal.aborted) return
    const isOurs = [BackupError, DatabaseStartError, MigrationError].some(
      (known) => error instanceof known,
    )
    // An error with a code comes from the system or from Postgres, such as a full disk, so its message is enough.
    const isExpected = isOurs || (error as { code?: unknown }).code !== undefined
    console.error(isExpected ? (error as Error).message : error)
  }
}

function read(help: string, flag: string): { path: string; isFlagged: boolean } | null {
  try {
    const { values, positionals } = parseArgs({
      options: {
        [flag]: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
      allowPositionals: true,
    })
    if (values.help) {
      console.log(help)
      return null
    }
    const [file] = positionals
    if (file === undefined || positionals.length > 1) throw new Error('Name one file.')
    // npm runs a script in the project's folder and names the caller's folder in INIT_CWD.
    return {
      path: resolve(process.env.INIT_CWD ?? '.', file),
      isFlagged: values[flag] === true,
    }
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`)
    process.exitCode = 2
    return null
  }
}

let reportedAt = performance.now()

/** Prints the size of the rows processed so far, at most once a second. `total`: size of all rows, if known. */
export function progressLine(bytes: number, total?: number): void {
  const now = performance.now()
  if (now - reportedAt < 1_000) return
  reportedAt = now
  console.error(
    `${megabytes(bytes)}${total === undefined ? '' : ` of ${megabytes(total)}`} of rows`,
  )
}

export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6).toLocaleString('en')} MB`
}
