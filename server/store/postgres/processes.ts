import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'

/** The operating system's data of a process, which may be a zombie. */
export interface ProcessFacts {
  /**
   * False for a zombie: it is dead, and its pid stays until its parent waits for it. Some containers' pid 1 never does.
   */
  running: boolean
  /** Differs between two processes with the same pid. */
  startedAt: string
  /** Null if unreadable: another user's process, or not Linux. */
  cwd: string | null
  commandLine: string
}

/** Reads the process table. Null if no process has the pid. */
export function inspectProcess(pid: number): ProcessFacts | null {
  if (!Number.isSafeInteger(pid) || pid <= 0) return null
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

function fromProc(pid: number): ProcessFacts | null {
  const stat = tryRead(`/proc/${pid}/stat`)
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
    startedAt: `${tryRead('/proc/sys/kernel/random/boot_id')?.trim() ?? ''}:${fields[19]}`,
    cwd,
    commandLine: (tryRead(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim(),
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
  } catch {
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

function tryRead(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
