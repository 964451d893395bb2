import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

export interface ServicePids {
  server: number
  workers: readonly number[]
  postgres: number
}

/** CPU time in µs by process and by kind of thread or Postgres process. Totals exclude the kinds in `NOT_COUNTED`. */
export interface CpuTimes {
  server: Record<string, number>
  workers: Record<string, number>
  postgres: Record<string, number>
}

/** Kind of the autovacuum processes. Postgres decides when they run, so their CPU time can fall into any batch. */
const AUTOVACUUM = 'autovacuum'
export const NOT_COUNTED: ReadonlySet<string> = new Set([AUTOVACUUM])

/** Interval between readings. When a thread ends, its CPU time since the last reading is not counted. */
const LOOK_EVERY_MS = 100

/** Kinds of Node's own threads by name. A thread with any other name is a worker thread, which runs JavaScript. */
const NODE_THREADS: Record<string, string> = {
  MainThread: 'main thread',
  'node-MainThread': 'main thread',
  V8Worker: 'V8 helpers (GC, JIT)',
  'libuv-worker': 'libuv pool',
  DelayedTaskSche: 'other threads',
  SignalInspector: 'other threads',
}

interface Task {
  process: keyof CpuTimes
  part: string
  /** Process id of a Postgres backend; null for other processes. The backend's application name is looked up later. */
  backend: number | null
  firstNs: number
  lastNs: number
}

/**
 * Sums the CPU time of every thread of a service from construction to `stop`. It reads the scheduler's statistics
 * (schedstat), which measure the same as utime + stime in /proc/<pid>/stat, but in ns instead of steps of 10 ms.
 * Linux only.
 */
export class CpuWatch {
  readonly #pids: ServicePids
  readonly #tasks = new Map<number, Task>()
  #stopped = false

  constructor(pids: ServicePids) {
    this.#pids = pids
    this.#look(true)
    void this.#keepLooking()
  }

  stop(): void {
    this.#stopped = true
    this.#look(false)
  }

  /** `names` maps the process ids of backends to their application names. */
  times(names: ReadonlyMap<number, string>): CpuTimes {
    const times: CpuTimes = { server: {}, workers: {}, postgres: {} }
    for (const task of this.#tasks.values()) {
      const part =
        task.backend === null ? task.part : `backends of ${names.get(task.backend) ?? 'others'}`
      const parts = times[task.process]
      parts[part] = (parts[part] ?? 0) + (task.lastNs - task.firstNs) / 1000
    }
    return times
  }

  async #keepLooking(): Promise<void> {
    for (;;) {
      await sleep(LOOK_EVERY_MS)
      if (this.#stopped) return
      this.#look(false)
    }
  }

  #look(isFirst: boolean): void {
    this.#readNode('server', this.#pids.server, isFirst)
    for (const pid of this.#pids.workers) this.#readNode('workers', pid, isFirst)
    const { postgres } = this.#pids
    const children = readFileSync(`/proc/${postgres}/task/${postgres}/children`, 'utf8')
    for (const pid of [postgres, ...children.trim().split(' ').filter(Boolean).map(Number)]) {
      this.#note(pid, pid, isFirst, () => {
        const title = tryRead(`/proc/${pid}/cmdline`).split('\0')[0] as string
        const part = pid === postgres ? 'postmaster' : partOfPostgres(title)
        return { process: 'postgres', part, backend: part === BACKEND ? pid : null }
      })
    }
  }

  #readNode(process: 'server' | 'workers', pid: number, isFirst: boolean): void {
    for (const tid of readdirSync(`/proc/${pid}/task`).map(Number)) {
      this.#note(pid, tid, isFirst, () => {
        const name = tryRead(`/proc/${pid}/task/${tid}/comm`).trim()
        const part = tid === pid ? 'main thread' : (NODE_THREADS[name] ?? 'worker threads')
        return { process, part, backend: null }
      })
    }
  }

  #note(
    pid: number,
    tid: number,
    isFirst: boolean,
    describe: () => Pick<Task, 'process' | 'part' | 'backend'>,
  ): void {
    const ns = Number(tryRead(`/proc/${pid}/task/${tid}/schedstat`).split(' ')[0])
    // The thread ended between the listing and the reading.
    if (!(ns > 0)) return
    const known = this.#tasks.get(tid)
    if (known !== undefined) known.lastNs = ns
    else this.#tasks.set(tid, { ...describe(), firstNs: isFirst ? ns : 0, lastNs: ns })
  }
}

const BACKEND = 'backend'

/** The kind of a Postgres process by its title: `postgres: walwriter`, `postgres: user database [local] idle`. */
export function partOfPostgres(title: string): string {
  const name = title.replace(/^postgres: /, '').trim()
  if (name.startsWith('autovacuum')) return AUTOVACUUM
  if (/^(checkpointer|background writer|walwriter|io worker|logical replication)/.test(name)) {
    return name.replace(/ \d+$/, '').replace(/^logical replication.*/, 'others')
  }
  return BACKEND
}

export function totalUs(times: CpuTimes, process?: keyof CpuTimes): number {
  const processes = process ? [process] : (['server', 'workers', 'postgres'] as const)
  let total = 0
  for (const name of processes) {
    for (const [part, us] of Object.entries(times[name])) if (!NOT_COUNTED.has(part)) total += us
  }
  return total
}

export async function applicationNames(url: string): Promise<Map<number, string>> {
  const client = new pg.Client({ connectionString: url, application_name: 'account' })
  await client.connect()
  try {
    const { rows } = await client.query<{ pid: number; name: string }>(
      'select pid, application_name as name from pg_stat_activity where pid <> pg_backend_pid()',
    )
    return new Map(rows.map(({ pid, name }) => [pid, name]))
  } finally {
    await client.end()
  }
}

function tryRead(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
