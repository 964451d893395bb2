import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PID_SPACE, PROCESS_MARK, readMark } from '../process-host.ts'
import { sendKill } from '../process-signals.ts'

/**
 * Folders in which this process can create control groups. The object is plain data, so it can be passed to threads.
 * v2: the parent of this process's own group, which enables the controllers for its child groups. v1: a folder for each
 * controller.
 */
export interface Cgroups {
  version: 1 | 2
  folders: string[]
}

export interface CgroupLimits {
  memoryBytes: number
  /** Maximum number of processes and threads. */
  processes: number
}

const PREFIX = 'rewardops-'
/**
 * CPU weight of user code. The service itself has 100, so user code yields when the processors are busy. While three
 * processes of the service keep the processors busy, a process tree of user code gets 8 % of the CPU time. With an
 * eighth of the service's weight, correct functions exceeded their time limits on a busy machine.
 */
const CPU_WEIGHT = 25
/** CPU shares on v1, where an ordinary process has 1,024. */
const CPU_SHARES = 256
/**
 * Maximum wait for killed processes to end. If they have not ended by then, the next start of the service removes their
 * group.
 */
const EMPTY_WITHIN_MS = 2_000
/**
 * Minimum age at which a group without processes is removed, because the process of a new group may not have joined the
 * group yet. The kernel sets the time of a group when a process first looks it up, so a group may be older than its
 * time, but never younger.
 */
const MIN_EMPTY_AGE_MS = 10_000

/**
 * Finds the folders in which groups with limits on memory and processes can be created. Returns null if there are none.
 */
export function findCgroups(
  mounts: string = readIfThere('/proc/self/mountinfo'),
  own: string = readIfThere('/proc/self/cgroup'),
): Cgroups | null {
  const ownPaths = ownGroups(own)
  const found = mounts.split('\n').flatMap((line) => {
    // In "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu", the pattern captures the root, mount
    // point, type and options.
    const [, root = '', at = '', type, options = ''] =
      /^\S+ \S+ \S+ (\S+) (\S+) .* - (\S+) \S+ (\S+)$/.exec(line) ?? []
    return type === undefined ? [] : [{ root, at, type, options: options.split(',') }]
  })
  const v2 = found.find(({ type }) => type === 'cgroup2')
  const unified = ownPaths.get('')
  if (v2 !== undefined && unified !== undefined) {
    const folder = join(v2.at, relative(v2.root, unified))
    // New groups are siblings of this process's group, because a group with processes cannot enable controllers for
    // child groups.
    const parent = folder === v2.at ? folder : dirname(folder)
    if (canHold(parent, ['memory.max', 'pids.max', 'cgroup.kill'])) {
      return { version: 2, folders: [parent] }
    }
  }
  const v1 = (controller: string, file: string): string[] => {
    const mount = found.find((one) => one.type === 'cgroup' && one.options.includes(controller))
    const path = [...ownPaths].find(([names]) => names.split(',').includes(controller))?.[1]
    if (mount === undefined || path === undefined) return []
    const folder = join(mount.at, relative(mount.root, path))
    return canHold(folder, [file]) ? [folder] : []
  }
  const memory = v1('memory', 'memory.limit_in_bytes')
  const processes = v1('pids', 'pids.max')
  if (memory.length === 0 || processes.length === 0) return null
  return { version: 1, folders: [...memory, ...processes, ...v1('cpu', 'cpu.shares')] }
}

/** The groups of a process, by their controllers, from its /proc/PID/cgroup. The group of v2 has the key "". */
export function ownGroups(text: string): Map<string, string> {
  // A line looks like "4:memory:/path".
  const lines = [...text.matchAll(/^\d+:([^:\n]*):(.*)$/gm)]
  return new Map(lines.map(([, controllers = '', path = '']) => [controllers, path]))
}

function canHold(folder: string, files: string[]): boolean {
  const probe = join(folder, `${PREFIX}${PROCESS_MARK}-probe`)
  try {
    mkdirSync(probe)
  } catch {
    return false
  }
  const holds = files.every((file) => existsSync(join(probe, file)))
  rmdirSync(probe)
  return holds
}

/** A control group of one process and everything that it starts. Its processes cannot leave it. */
export class Cgroup {
  readonly #paths: string[]
  readonly #version: 1 | 2
  static #next = 1

  /** @throws Error if the folders are no longer writable */
  constructor({ version, folders }: Cgroups, { memoryBytes, processes }: CgroupLimits) {
    const name = `${PREFIX}${PROCESS_MARK}-${Cgroup.#next++}`
    this.#version = version
    this.#paths = [...new Set(folders)].map((folder) => join(folder, name))
    for (const path of this.#paths) mkdirSync(path)
    const limits: Record<string, string | number> =
      version === 2
        ? {
            'memory.max': memoryBytes,
            'memory.swap.max': 0,
            'pids.max': processes,
            'cpu.weight': CPU_WEIGHT,
          }
        : {
            'memory.limit_in_bytes': memoryBytes,
            'memory.memsw.limit_in_bytes': memoryBytes,
            'pids.max': processes,
            'cpu.shares': CPU_SHARES,
          }
    for (const [file, value] of Object.entries(limits)) this.#write(file, value)
  }

  /**
   * Moves a process and its descendants into the group. New children of a moved process start in the group, so the
   * search ends when no other child is found.
   */
  add(pid: number): void {
    const moved = new Set<string>()
    for (const open = [String(pid)]; open.length > 0; ) {
      const next = open.pop() as string
      for (const path of this.#paths) writeFileSync(join(path, 'cgroup.procs'), next)
      moved.add(next)
      const children = readIfThere(`/proc/${next}/task/${next}/children`).split(' ')
      open.push(...children.filter((child) => child !== '' && !moved.has(child)))
    }
  }

  /** Whether the kernel has killed a process of the cgroup because the cgroup exceeded its memory limit. */
  ranOutOfMemory(): boolean {
    const file = this.#version === 2 ? 'memory.events' : 'memory.oom_control'
    return this.#paths.some((path) => /^oom_kill [1-9]/m.test(readIfThere(join(path, file))))
  }

  kill(): void {
    if (this.#version === 2) {
      this.#write('cgroup.kill', 1)
      return
    }
    // With a limit of 0, no process of the group can start another one while the group is killed.
    this.#write('pids.max', 0)
    killAll(this.#paths)
  }

  /** Kills all processes and removes the group. A group whose processes do not end is removed by a later start. */
  async remove(): Promise<void> {
    for (const until = performance.now() + EMPTY_WITHIN_MS; performance.now() < until; ) {
      this.kill()
      if (this.#paths.every(removed)) return
      await sleep(5)
    }
  }

  /** Writes a file of the group if it exists; the files of controllers that the machine lacks are skipped. */
  #write(file: string, value: string | number): void {
    for (const path of this.#paths) {
      try {
        if (existsSync(join(path, file))) writeFileSync(join(path, file), String(value))
      } catch {
        // The group is gone, or the kernel has no swap accounting.
      }
    }
  }
}

export async function removeLeftGroups({ version, folders }: Cgroups): Promise<void> {
  for (const folder of new Set(folders)) {
    for (const name of readdirSync(folder)) {
      const mark = name.startsWith(PREFIX) ? readMark(name.slice(PREFIX.length)) : null
      if (mark === null || !/^\d+$/.test(mark.rest)) continue
      const { space = PID_SPACE, pid } = mark
      const path = join(folder, name)
      if (space !== PID_SPACE) {
        // A group of another container is removed only if it has no processes.
        const seenMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
        if (Date.now() - seenMs > MIN_EMPTY_AGE_MS) removed(path)
        continue
      }
      if (existsSync(`/proc/${pid}`)) continue
      for (let rounds = 0; rounds < 20 && !removed(path); rounds++) {
        if (version === 2) writeFileSync(join(path, 'cgroup.kill'), '1')
        else killAll([path])
        await sleep(5)
      }
    }
  }
}

function killAll(paths: string[]): void {
  for (const path of paths) {
    for (const pid of readIfThere(join(path, 'cgroup.procs')).split('\n')) {
      if (pid !== '') sendKill(Number(pid))
    }
  }
}

function removed(path: string): boolean {
  try {
    rmdirSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
