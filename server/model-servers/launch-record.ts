import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspectProcess } from '../store/postgres/processes.ts'

/**
 * The files of launched servers, in the folder `servers` of the data folder: `<name>.pid` says what runs, `<name>.owner`
 * which service it belongs to, `<name>.end` how it ended, `<name>.log` what it printed.
 */

/** A process, told apart from another that is given its pid later. */
export interface ProcessMark {
  pid: number
  /** As the process table has it. */
  startedAt: string
}

/** What `<name>.pid` holds. */
export interface LaunchRecord extends ProcessMark {
  /** The process between it and us: it reads its output and outlives us. */
  keeper: ProcessMark
  /** Of the launch that started it, see {@link LaunchCommand}. */
  fingerprint: string
}

/** How a launched process ended. */
export interface LaunchEnd {
  code: number | null
  signal: NodeJS.Signals | null
  /** Could not be started at all. */
  error: string | null
  livedMs: number
  /** Secrets masked. */
  lastLines: string[]
}

/** What a keeper is told to run, as JSON on its standard input. */
export interface LaunchCommand {
  name: string
  argv: readonly string[]
  cwd: string | undefined
  env: NodeJS.ProcessEnv
  /** Never written down. */
  secrets: readonly string[]
  /** Equal for two launches that would start the same process. */
  fingerprint: string
}

/** What a keeper needs beside the command. */
export interface KeeperOptions extends LaunchCommand {
  folder: string
  /** From SIGTERM to SIGKILL. */
  stopWithinMs: number
  /** Without a living owner for so long, it ends what it runs. */
  adoptWithinMs: number
}

/** A file of a launched server. */
export function launchFile(
  folder: string,
  name: string,
  kind: 'pid' | 'owner' | 'end' | 'log',
): string {
  return join(folder, `${name}.${kind}`)
}

/** The mark of a process that runs now; null: there is none. */
export function markOf(pid: number): ProcessMark | null {
  const facts = inspectProcess(pid)
  return facts?.running === true ? { pid, startedAt: facts.startedAt } : null
}

/** Whether a process still runs. A stopped one (SIGSTOP) does. */
export function isRunning(mark: ProcessMark): boolean {
  return markOf(mark.pid)?.startedAt === mark.startedAt
}

/** Reads a file that {@link writeRecord} wrote; null where it is missing or something else. */
export function readRecord<T extends object>(file: string): T | null {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as T) : null
  } catch {
    return null
  }
}

/** Writes a file that is never seen half written. */
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

/** The living service that a launched server belongs to; null: none. */
export function livingOwner(folder: string, name: string): ProcessMark | null {
  const owner = readRecord<ProcessMark>(launchFile(folder, name, 'owner'))
  return owner !== null && isRunning(owner) ? owner : null
}

/** Sends a signal to a process group; false: there is none. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal)
    return true
  } catch {
    return false
  }
}
