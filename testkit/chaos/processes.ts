import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Environment variable that marks every process of an episode and its descendants. */
export const MARK = 'CHAOS_EPISODE'
/** Environment variable that marks one start of a server and its descendants. */
export const GENERATION = 'CHAOS_GENERATION'

export interface Launch {
  command: string
  args: string[]
  cwd?: string
  env?: Record<string, string>
  /** File to which standard output and error are appended. */
  log: string
  uid?: number
  gid?: number
}

export class Running {
  readonly child: ChildProcess
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  said = ''

  constructor(child: ChildProcess) {
    this.child = child
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }))
      child.once('error', () => resolve({ code: -1, signal: null }))
    })
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.said += text
    })
  }

  get pid(): number {
    return this.child.pid ?? -1
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }
}

/** Starts a process that inherits only a few variables of the harness's environment, such as PATH. */
export function launch(o: Launch): Running {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'NODE_COMPILE_CACHE']
  const base = Object.entries(process.env).filter(([name]) => kept.includes(name))
  const child = spawn(o.command, o.args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...Object.fromEntries(base), ...o.env } as unknown as NodeJS.ProcessEnv,
    // In its own process group the process does not receive Ctrl-C; the harness does, and ends the episode.
    detached: true,
    ...(o.cwd === undefined ? {} : { cwd: o.cwd }),
    ...(o.uid === undefined ? {} : { uid: o.uid, gid: o.gid }),
  })
  const log = createWriteStream(o.log, { flags: 'a' })
  child.stdout.pipe(log, { end: false })
  child.stderr.pipe(log, { end: false })
  return new Running(child)
}

export interface Found {
  pid: number
  parent: number
  /** Start time in ticks since boot, which distinguishes a process from a later one with the same id. */
  startedAt: string
  state: string
  command: string
}

export function inspect(pid: number): Found | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const rest = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const state = rest[0] as string
    if (state === 'Z' || state === 'X') return null
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
    return { pid, parent: Number(rest[1]), startedAt: rest[19] as string, state, command }
  } catch {
    return null
  }
}

/** Live processes with `variable=value` in their environment, or with a working directory in `folder`. */
export function findProcesses(variable: string, value: string, folder: string | null): Found[] {
  const found: Found[] = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || pid === process.pid) continue
    if (!hasVariable(pid, variable, value) && !(folder !== null && worksIn(pid, folder))) continue
    const process_ = inspect(pid)
    if (process_ !== null) found.push(process_)
  }
  return found
}

export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && inspect(pid)?.parent === parent)
}

function hasVariable(pid: number, variable: string, value: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${variable}=${value}`)
  } catch {
    return false
  }
}

function worksIn(pid: number, folder: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
  } catch {
    return false
  }
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    if (pid > 0) process.kill(pid, name)
  } catch {
    // The process has ended.
  }
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Reads a state until it is neither null nor false; an error counts as null. Returns null after the time limit. */
export async function poll<T>(
  look: () => Promise<T | null | false> | T | null | false,
  withinMs: number,
  everyMs = 150,
): Promise<T | null> {
  const until = performance.now() + withinMs
  for (;;) {
    const state = await Promise.resolve(look()).catch(() => null)
    if (state !== null && state !== false) return state
    if (performance.now() > until) return null
    await sleep(everyMs)
  }
}
