import { execFileSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { processLives, readProcFile } from '../../process-signals.ts'

export interface ProcessFacts {
  /**
   * False for a zombie: a dead process whose pid stays in use until its parent waits for it. In some containers, pid 1
   * never waits.
   */
  running: boolean
  /** Differs between two processes with the same pid. */
  startedAt: string
  /** Null if it cannot be read: for another user's process, and on systems other than Linux. */
  cwd: string | null
  commandLine: string
}

/** Identifies a process even if its pid is reused later. */
export interface ProcessMark {
  pid: number
  startedAt: string
}

/** The mark of a running process, or null if no running process has this pid. @throws like {@link inspectProcess} */
export function markOf(pid: number): ProcessMark | null {
  const facts = inspectProcess(pid)
  return facts?.running === true ? { pid, startedAt: facts.startedAt } : null
}

/**
 * True while a process exists, even if SIGSTOP has stopped it. While the process table cannot be read, any process with
 * the pid counts, because a process that is wrongly considered dead loses its jobs and locks.
 */
export function isRunning({ pid, startedAt }: ProcessMark): boolean {
  try {
    return markOf(pid)?.startedAt === startedAt
  } catch {
    return processLives(pid)
  }
}

/**
 * Reads the process table. Null if no process has the pid.
 * @throws Error if the table cannot be read, for lack of file descriptors for example
 */
export function inspectProcess(pid: number): ProcessFacts | null {
  if (!Number.isSafeInteger(pid) || pid <= 0) return null
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

function fromProc(pid: number): ProcessFacts | null {
  const stat = readProcFile(`/proc/${pid}/stat`)
  if (stat === null) return null
  // "pid (name) S ppid …": the name may contain spaces and brackets, so fields are counted from the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  let cwd: string | null = null
  try {
    cwd = readlinkSync(`/proc/${pid}/cwd`)
  } catch {}
  return {
    running: fields[0] !== 'Z' && fields[0] !== 'X',
    // Clock ticks since boot (field 22 of proc(5)), so the boot id is part of the value.
    startedAt: `${readProcFile('/proc/sys/kernel/random/boot_id')?.trim() ?? ''}:${fields[19]}`,
    cwd,
    commandLine: (readProcFile(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim(),
  }
}

function fromPs(pid: number): ProcessFacts | null {
  let row: string
  try {
    row = execFileSync('ps', ['-ww', '-o', 'state=,lstart=,command=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { PATH: '/bin:/usr/bin', LC_ALL: 'C' } as unknown as NodeJS.ProcessEnv,
    }).trim()
  } catch (error) {
    // An error without a status means that `ps` was not run.
    if (typeof (error as { status?: unknown }).status !== 'number') throw error
    return null
  }
  // "S    Fri Nov 20 23:25:00 2026     /path/to/postgres -D …"
  const [state = '', ...rest] = row.split(/\s+/)
  return {
    running: !state.startsWith('Z'),
    startedAt: rest.slice(0, 5).join(' '),
    cwd: null,
    commandLine: rest.slice(5).join(' '),
  }
}
