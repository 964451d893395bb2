import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { opendir, rm, stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readProcFile, sendKill, sendSignal } from '../process-signals.ts'
import { Cgroup, type Cgroups } from './cgroups.ts'

export interface TreeLimits {
  memoryBytes: number
  /** Maximum number of processes and threads. */
  processes: number
  /** Maximum size of the files in the tree's folder. */
  diskBytes: number
}

/** Limits of a tree, and the properties by which its processes are recognized. */
export interface TreeOptions {
  limits: TreeLimits
  /** If null, the process table is read every quarter of a second, and a tree over its limits is killed. */
  cgroups: Cgroups | null
  /** The user that only this tree runs as; null if it runs as the service's user. */
  user: { uid: number; gid: number } | null
  hasNamespace: boolean
  /** The folder for the tree's temporary files. It is removed after the tree has ended. */
  folder: string
  /** Called once, before the tree is killed because it exceeds a limit. */
  onOver: (detail: string) => void
}

const WATCH_MS = 250
const TABLE_WITHIN_MS = 10_000
/**
 * Maximum number of rounds in which a tree's processes are stopped. Processes of another user cannot be stopped and
 * could start others without end.
 */
const MAX_STOP_ROUNDS = 10
/** Nice value of a tree without a control group; an ordinary process has 0. */
const NICENESS = 6
/** Maximum number of files whose sizes are added up; further files of a folder are ignored. */
const MAX_FILES = 10_000

interface ProcessEntry {
  pid: number
  parent: number
  uid: number
  startedAt: string
  threads: number
  memoryBytes: number
}

const trees = new Set<ProcessTree>()
let timer: NodeJS.Timeout | undefined

export class ProcessTree {
  readonly #child: ChildProcess
  readonly #options: TreeOptions
  readonly #group: Cgroup | null
  #namespace: string | null = null
  /** Processes seen in the tree: pid → time of their start. */
  readonly #seen = new Map<number, string>()
  #over = false
  #isKilled = false
  #measuring = false
  #ended = false

  /** @throws Error if no control group can be created */
  constructor(child: ChildProcess, options: TreeOptions) {
    this.#child = child
    this.#options = options
    this.#group = options.cgroups === null ? null : new Cgroup(options.cgroups, options.limits)
    this.#group?.add(child.pid as number)
    if (this.#group === null) yieldProcessors(child.pid as number)
    trees.add(this)
    timer ??= setInterval(lookAtAll, WATCH_MS).unref()
  }

  kill(): void {
    this.#isKilled = true
    const { user } = this.#options
    if (this.#group === null && user === null) this.#killMembers()
    if (this.#isRunning) {
      // The process group exists if the process was started detached.
      const pid = this.#child.pid as number
      for (const id of [-pid, pid]) sendKill(id)
    }
    if (this.#group !== null) this.#group.kill()
    else if (user !== null) {
      // Every process of this user is in the tree. Only a process of the same user can signal all of them at the same
      // time.
      spawn('/bin/sh', ['-c', 'kill -9 -1'], { ...user, stdio: 'ignore' }).on('error', () => {})
    }
  }

  /** Called after the process has ended: kills the processes that it left behind, and removes its folder. */
  async close(): Promise<void> {
    if (this.#ended) return
    // The kernel may kill the process before the process reports that it exceeds its memory limit.
    if (!this.#isKilled && this.#child.signalCode === 'SIGKILL' && this.#group?.ranOutOfMemory()) {
      const mb = Math.round(this.#options.limits.memoryBytes / 2 ** 20)
      this.#isOver(`it and the processes it started took more than ${mb} MB`)
    }
    this.#ended = true
    trees.delete(this)
    if (trees.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
    if (this.#group === null && this.#options.user === null) {
      // Processes that the ended process left behind are found only in the process table.
      const until = performance.now() + TABLE_WITHIN_MS
      while (!this.#killMembers() && performance.now() < until) await sleep(WATCH_MS)
    } else this.kill()
    await this.#group?.remove()
    await rm(this.#options.folder, { recursive: true, force: true }).catch(() => {})
  }

  get isWatched(): boolean {
    return this.#group === null
  }

  look(table: readonly ProcessEntry[]): void {
    const { limits } = this.#options
    if (this.isWatched) {
      const members = [...this.#membersOf(table)]
      const bytes = members.reduce((sum, one) => sum + one.memoryBytes, 0)
      const threads = members.reduce((sum, one) => sum + one.threads, 0)
      if (bytes > limits.memoryBytes) {
        this.#isOver(`it and the processes it started took ${Math.round(bytes / 2 ** 20)} MB`)
      } else if (threads > limits.processes) {
        this.#isOver(`it started ${threads} processes and threads`)
      }
    }
    if (this.#measuring || this.#ended) return
    this.#measuring = true
    void sizeOf(this.#options.folder)
      .then((bytes) => {
        if (bytes <= limits.diskBytes) return
        this.#isOver(`it wrote ${Math.round(bytes / 2 ** 20)} MB to its temporary folder`)
      })
      .finally(() => {
        this.#measuring = false
      })
  }

  #isOver(what: string): void {
    if (this.#over || this.#ended) return
    this.#over = true
    this.#options.onOver(`${what}, over its limit`)
    this.kill()
  }

  /** Whether the tree's first process runs. After it has ended, its id may belong to another process. */
  get #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  #membersOf(table: readonly ProcessEntry[]): Set<ProcessEntry> {
    const { user, hasNamespace } = this.#options
    const root = this.#child.pid as number
    if (hasNamespace && this.#isRunning) this.#namespace ??= ownNamespace(root)
    for (const { pid, startedAt } of table) {
      const seen = this.#seen.get(pid)
      // The id of an ended process now belongs to another process. Members that are missing in the table are kept: a
      // process whose first thread has ended is listed as ended, but its other threads can start processes.
      if (seen !== undefined && seen !== startedAt) this.#seen.delete(pid)
    }
    const isMember = (one: ProcessEntry): boolean => {
      if (one.pid === root && this.#isRunning) return true
      if (this.#seen.get(one.pid) === one.startedAt) return true
      if (user !== null) return one.uid === user.uid
      return this.#namespace !== null && namespaceOf(one.pid) === this.#namespace
    }
    const members = new Set<ProcessEntry>()
    const add = (one: ProcessEntry) => {
      members.add(one)
      if (this.#seen.get(one.pid) !== one.startedAt) yieldProcessors(one.pid)
      this.#seen.set(one.pid, one.startedAt)
    }
    table.filter(isMember).forEach(add)
    // A descendant may be listed before its parent, because ids are reused.
    for (let size = -1; user === null && size < members.size; ) {
      size = members.size
      for (const one of table) if (!members.has(one) && this.#seen.has(one.parent)) add(one)
    }
    return members
  }

  /**
   * Kills the members of the tree. Each is first stopped, so that it starts no other process that would be missed.
   * Returns false if the process table could not be read.
   */
  #killMembers(): boolean {
    /** Stopped processes, with their parents. */
    const stopped = new Map<number, number>()
    let wasRead = false
    for (let rounds = 0; rounds < MAX_STOP_ROUNDS; rounds++) {
      const table = processTable()
      if (table === null) break
      wasRead = true
      const members = [...this.#membersOf(table)]
      const found = members.filter(({ pid }) => !stopped.has(pid))
      for (const { pid } of found) sendSignal(pid, 'SIGSTOP')
      for (const { pid, parent } of members) stopped.set(pid, parent)
      if (found.length === 0) break
    }
    for (const pid of descendantsFirst(stopped, this.#child.pid as number)) sendKill(pid)
    return wasRead
  }
}

/**
 * Orders stopped processes so that killing one resumes as few of the remaining ones as possible. The end of a process
 * can resume stopped processes: the kernel sends SIGCONT to a stopped process group when none of its processes has a
 * parent in another group of the session any more. Descendants are therefore killed before their ancestors, and
 * orphaned processes before those below `root`, the first process of the tree. `parents`: pid → parent.
 */
function descendantsFirst(parents: ReadonlyMap<number, number>, root: number): number[] {
  const rankOf = (pid: number): number => {
    const above = [pid]
    for (let at = parents.get(pid); at !== undefined && parents.has(at); at = parents.get(at)) {
      // Ids that were reused could form a cycle.
      if (above.push(at) > parents.size) break
    }
    return above.length + (above.at(-1) === root ? 0 : parents.size)
  }
  return [...parents.keys()]
    .map((pid) => ({ pid, rank: rankOf(pid) }))
    .sort((a, b) => b.rank - a.rank)
    .map(({ pid }) => pid)
}

function lookAtAll(): void {
  const table = [...trees].some((tree) => tree.isWatched) ? processTable() : []
  if (table === null) return
  for (const tree of trees) tree.look(table)
}

/**
 * Returns the running processes, or null if they cannot be read now, e.g. for lack of file descriptors. Empty on
 * systems without /proc.
 */
function processTable(): ProcessEntry[] | null {
  if (process.platform !== 'linux') return []
  const entries: ProcessEntry[] = []
  try {
    for (const name of readdirSync('/proc')) {
      const entry = /^\d+$/.test(name) ? entryOf(Number(name)) : null
      if (entry !== null) entries.push(entry)
    }
  } catch {
    return null
  }
  return entries
}

/** Returns the entry of a process, or null if the process has ended. @throws Error if /proc cannot be read now */
function entryOf(pid: number): ProcessEntry | null {
  const stat = readProcFile(`/proc/${pid}/stat`)
  // Fields of proc(5) after the name, which may contain spaces: state, ppid, … threads (20th), start (22nd).
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (fields === undefined || fields[0] === 'Z') return null
  const status = readProcFile(`/proc/${pid}/status`)
  if (status === null) return null
  return {
    pid,
    parent: Number(fields[1]),
    uid: numberOf(status, 'Uid'),
    threads: Number(fields[17]),
    startedAt: fields[19] as string,
    memoryBytes: 1_024 * (numberOf(status, 'RssAnon') + numberOf(status, 'RssShmem')),
  }
}

/** Returns the first number of a field of /proc/PID/status: the real user id for `Uid`, and KiB for memory. */
function numberOf(status: string, name: string): number {
  const at = status.indexOf(`\n${name}:`)
  return at < 0 ? 0 : Number.parseInt(status.slice(at + name.length + 2), 10)
}

/**
 * Gives a process a quarter of the CPU weight of an ordinary one, as a control group would. The weight is set for the
 * process, whose children inherit it, and for its session, because the kernel first divides the CPU time between
 * sessions (autogroups).
 */
function yieldProcessors(pid: number): void {
  try {
    setPriority(pid, NICENESS)
    writeFileSync(`/proc/${pid}/autogroup`, `${NICENESS}`)
  } catch {
    // The process has ended, or the kernel has no autogroups.
  }
}

function namespaceOf(pid: number | 'self'): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/user`)
  } catch {
    return null
  }
}

/** Returns the namespace of a tree's first process, or null while the process is still in the service's namespace. */
function ownNamespace(pid: number): string | null {
  const namespace = namespaceOf(pid)
  return namespace === namespaceOf('self') ? null : namespace
}

/** Bytes on disk of the files in a folder. */
async function sizeOf(folder: string): Promise<number> {
  let bytes = 0
  let files = 0
  const open = [folder]
  for (let dir = open.pop(); dir !== undefined && files < MAX_FILES; dir = open.pop()) {
    try {
      for await (const entry of await opendir(dir)) {
        if (++files > MAX_FILES) break
        const path = join(dir, entry.name)
        if (entry.isDirectory()) open.push(path)
        else if (entry.isFile()) bytes += (await stat(path)).blocks * 512
      }
    } catch {
      // The folder or file was removed in the meantime.
    }
  }
  return bytes
}
