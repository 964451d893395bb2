import { readFileSync } from 'node:fs'

/** Whether a process with this id exists, of any user. */
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
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

/** Error codes of a /proc file whose process has ended or belongs to another user. */
const UNREADABLE = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/**
 * A file of /proc about a process; null: no such process, or it may not be read.
 * @throws Error if nothing can be read now, for lack of file descriptors for example: the process may be running
 */
export function readProcFile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (UNREADABLE.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}
