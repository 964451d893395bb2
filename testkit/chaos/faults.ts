import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { askAt } from './postgres-cluster.ts'
import { childrenOf, poll, signal } from './processes.ts'
import type { Fault } from './schedule.ts'
import type { Managed, ServerPart, Stack } from './stack.ts'
import type { TcpProxy } from './tcp-proxy.ts'

/** Maximum time that the processes of a server outlive its SIGKILL: 10 s, plus one second for a busy machine. */
const OUTLIVES_MS = 11_000
/** Maximum wait for a worker that a fault can hit, if an earlier fault has ended all workers. */
const WORKERS_BACK_MS = 120_000

/** Injects a fault. Resolves when the fault is healed. */
export async function strike(stack: Stack, fault: Fault): Promise<void> {
  const heal = await begin(stack, fault)
  await sleep(fault.forMs)
  await heal()
  stack.history.add({ e: 'healed', at: Date.now(), kind: fault.kind, what: '' })
}

async function begin(stack: Stack, fault: Fault): Promise<() => Promise<void>> {
  const [victim, action] = fault.kind.split('-') as [string, string]
  const note = (what: string, detail: Record<string, unknown> = {}) =>
    stack.history.add({ e: 'fault', at: Date.now(), kind: fault.kind, what, detail })
  switch (fault.kind) {
    case 'none':
      return async () => {}
    case 'all-kill':
      return killAll(stack, note)
    case 'net-trainer':
      return disturb(nth(stack.servers, fault).link, fault, note)
    case 'net-postgres':
      return disturb(nth(stack.databaseLinks(), fault), fault, note)
    case 'net-rm':
      return disturb(nth(stack.models, fault).link, fault, note)
    case 'read-only':
      return readOnly(stack, note)
    case 'disk-full':
      note('disk')
      await stack.fillDisk(true)
      return () => stack.fillDisk(false)
    case 'clock-step':
      return stepClock(stack, fault, note)
    case 'failover':
      return failOver(stack, note)
    case 'backend-kill':
    case 'backend-term':
      return endBackend(stack, action, note)
    default:
  }
  if (victim === 'worker') return strikeWorker(stack, fault, action, note)
  if (victim === 'postgres') return strikePostgres(stack, action, note)
  const part = partOf(stack, victim, fault)
  if (part === null) return async () => {}
  if (action === 'stop') return pause(part.running?.pid ?? -1, part.name, note)
  return end(stack, part, action === 'kill' ? 'SIGKILL' : 'SIGTERM', note)
}

type Note = (what: string, detail?: Record<string, unknown>) => void

function nth<T>(items: readonly T[], fault: Fault): T {
  return items[fault.target % items.length] as T
}

function partOf(stack: Stack, victim: string, fault: Fault): Managed | null {
  if (victim === 'server') return nth(stack.servers, fault)
  if (victim === 'rm') return nth(stack.models, fault)
  // A finished trainer cannot be hit by a fault.
  return stack.trainer?.running ? stack.trainer : null
}

async function end(
  stack: Stack,
  part: Managed,
  name: 'SIGKILL' | 'SIGTERM',
  note: Note,
): Promise<() => Promise<void>> {
  note(part.name, { pid: part.running?.pid })
  const server = stack.servers.find((one) => one === part)
  if (server !== undefined && name === 'SIGKILL') watchLeftover(stack, server)
  // After SIGTERM, a server drains for up to 8 s. The drain is part of the fault's duration, so it is not awaited here.
  const gone = stack.down(part, name)
  if (name === 'SIGKILL') await gone
  return async () => {
    await gone
    stack.spawn(part)
    await untilUp(stack, part)
  }
}

function watchLeftover(stack: Stack, server: ServerPart): void {
  const { generation } = server
  stack.watches.push(
    sleep(OUTLIVES_MS * stack.slowness).then(() => stack.noteLeftover(server, generation)),
  )
}

async function untilUp(stack: Stack, part: Managed): Promise<void> {
  const server = stack.servers.find((one) => one === part)
  if (server === undefined) return
  const isUp = await poll(() => stack.isHealthy(server), 60_000 * Math.sqrt(stack.slowness))
  if (isUp !== null) return
  const message = `${part.name} is not healthy 60 s after its restart`
  stack.history.add({ e: 'broken', at: Date.now(), law: 'start', message })
}

function pause(pid: number, what: string, note: Note): () => Promise<void> {
  note(what, { pid })
  signal(pid, 'SIGSTOP')
  return async () => signal(pid, 'SIGCONT')
}

async function strikeWorker(stack: Stack, fault: Fault, action: string, note: Note) {
  const pids = await poll(() => {
    const found = stack.workerPids()
    return found.length > 0 && found.sort((a, b) => a - b)
  }, WORKERS_BACK_MS)
  if (pids === null) throw new Error(`${fault.kind} found no worker`)
  const pid = nth(pids, fault)
  if (action === 'stop') return pause(pid, 'worker', note)
  note('worker', { pid })
  // The worker's server, or the harness, starts a new worker, so nothing needs to be healed.
  signal(pid, action === 'kill' ? 'SIGKILL' : 'SIGTERM')
  return async () => {}
}

async function strikePostgres(stack: Stack, action: string, note: Note) {
  const pid = stack.postgresPid
  if (pid === null) return async () => {}
  if (action === 'stop') {
    const pids = [pid, ...childrenOf(pid)]
    note('postgres', { pids })
    for (const each of pids) signal(each, 'SIGSTOP')
    return async () => {
      for (const each of pids) signal(each, 'SIGCONT')
    }
  }
  note('postgres', { pid })
  const { cluster } = stack
  if (cluster === null) {
    signal(pid, 'SIGKILL')
    return async () => {}
  }
  await cluster.end(action === 'kill' ? 'SIGKILL' : 'SIGINT')
  const settings: Record<string, string> =
    stack.standby === null ? {} : { synchronous_standby_names: '*' }
  return () => cluster.startAgain(settings)
}

async function endBackend(stack: Stack, action: string, note: Note) {
  const url = stack.databaseUrl()
  if (url === null) return async () => {}
  const rows = await askAt<{ pid: number }>(
    url,
    `select pid from pg_stat_activity where application_name like 'rewardops%' order by random() limit 1`,
  ).catch(() => [])
  const pid = rows[0]?.pid
  note('backend', { pid })
  if (pid !== undefined) signal(pid, action === 'kill' ? 'SIGKILL' : 'SIGTERM')
  return async () => {}
}

async function killAll(stack: Stack, note: Note) {
  const postgres = stack.cluster === null ? stack.postgresPid : null
  const workers = stack.workerPids()
  note('everything', { workers, postgres })
  const down = stack.servers.map((server) => stack.down(server, 'SIGKILL'))
  for (const pid of [...workers, ...(postgres === null ? [] : [postgres])]) signal(pid, 'SIGKILL')
  await Promise.all(down)
  return async () => {
    for (const server of stack.servers) stack.spawn(server)
    await Promise.all(stack.servers.map((server) => untilUp(stack, server)))
  }
}

function disturb(link: TcpProxy, fault: Fault, note: Note): () => Promise<void> {
  note(`link to port ${link.targetPort}`, { mode: fault.mode, delayMs: fault.delayMs })
  link.set(fault.mode ?? 'refuse', fault.delayMs)
  return async () => {
    link.set('pass')
    // Half-open connections would last for minutes, until the kernel's timeouts, so they are reset.
    if (fault.mode !== 'delay') link.cut()
  }
}

async function readOnly(stack: Stack, note: Note) {
  note('database')
  const set = async (value: string) => {
    const url = stack.databaseUrl()
    if (url === null) throw new Error('the database is down')
    // Postgres allows ALTER SYSTEM in read-only transactions, so the setting can be restored.
    await askAt(url, `alter system set default_transaction_read_only = ${value}`)
    await askAt(url, 'select pg_reload_conf()')
  }
  await poll(() => set('on').then(() => true), 5_000)
  return async () => {
    await poll(() => set('off').then(() => true), 30_000)
  }
}

async function stepClock(stack: Stack, fault: Fault, note: Note) {
  const worker = nth(stack.workers, fault)
  if (worker.clockFile === null) return async () => {}
  const sign = (fault.stepS ?? 0) < 0 ? '' : '+'
  note(worker.name, { stepS: fault.stepS })
  writeFileSync(worker.clockFile, `${sign}${fault.stepS}`)
  return async () => writeFileSync(worker.clockFile as string, '+0')
}

async function failOver(stack: Stack, note: Note) {
  if (stack.standby === null) return async () => {}
  note('primary')
  await stack.cluster?.end('SIGKILL')
  return () => stack.failOver()
}
