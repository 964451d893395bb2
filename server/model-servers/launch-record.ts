import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRunning, type ProcessMark } from '../store/postgres/processes.ts'

/**
 * The files of launched servers, in the folder `servers` of the data folder: `<name>.pid` names the server's
 * process and its keeper, `<name>.owner` names the service that owns them, `<name>.end` records how the server ended,
 * and `<name>.log` is the server's output.
 */

/** The content of `<name>.pid`. */
export interface LaunchRecord extends ProcessMark {
  keeper: ProcessMark
  fingerprint: string
}

export interface LaunchEnd {
  code: number | null
  signal: NodeJS.Signals | null
  /** The error if the process could not be started. */
  error: string | null
  livedMs: number
  /** The last lines of the output, with secrets masked. */
  lastLines: string[]
}

/** The command that a keeper runs, sent as JSON on its standard input. */
export interface LaunchCommand {
  name: string
  argv: readonly string[]
  cwd: string | undefined
  env: NodeJS.ProcessEnv
  /** Secrets to mask; never written to disk. */
  secrets: readonly string[]
  /** A digest that is equal for two launches that would start the same process. */
  fingerprint: string
}

export interface KeeperOptions extends LaunchCommand {
  folder: string
  /** Time from SIGTERM to SIGKILL, in ms. */
  stopWithinMs: number
  /** The keeper ends the server once no service has owned it for this long, in ms. */
  adoptWithinMs: number
}

export function launchFile(
  folder: string,
  name: string,
  kind: 'pid' | 'owner' | 'end' | 'log',
): string {
  return join(folder, `${name}.${kind}`)
}

/** Reads a file written by {@link writeRecord}. Returns null if the file is missing or invalid. */
export function readRecord<T extends object>(file: string): T | null {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as T) : null
  } catch {
    return null
  }
}

export function writeRecord(file: string, value: object): void {
  const draft = `${file}.${process.pid}.new`
  writeFileSync(draft, JSON.stringify(value), { mode: 0o600 })
  try {
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

export function livingOwner(folder: string, name: string): ProcessMark | null {
  const owner = readRecord<ProcessMark>(launchFile(folder, name, 'owner'))
  return owner !== null && isRunning(owner) ? owner : null
}

/** Sends a signal to a process group. Returns false if the group does not exist. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal)
    return true
  } catch {
    return false
  }
}
