import { readFileSync } from 'node:fs'

/** Whether a process with this id exists, whichever user owns it. */
export function processLives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Sends SIGKILL to a process, or to a process group by its negative id. Nothing happens if it has ended. */
export function sendKill(pid: number): void {
  sendSignal(pid, 'SIGKILL')
}

/** Sends a signal to a process. Nothing happens if it has ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has already ended.
  }
}

/** Error codes of a /proc file whose process has ended or belongs to another user. */
const UNREADABLE = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/**
 * Reads a file of a process in /proc. Returns null if the process does not exist or its files are not readable.
 * @throws Error if no file can be read now, for example because there are too many open files; the other process may
 * still be running
 */
export function readProcFile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (UNREADABLE.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}
