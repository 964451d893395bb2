import { existsSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Isolation } from '../../contract/isolation.ts'
import {
  type IsolatedProcess,
  type IsolationPlan,
  startIsolated,
} from '../../isolation/isolation.ts'
import type { SandboxBind } from '../../isolation/sandbox.ts'
import { CHANNEL_FD, type FunctionTarget, MARKS_FD, SHARED_FOLDER } from './protocol.ts'
import { serveRouter } from './router-gateway.ts'

const MAIN = fileURLToPath(new URL('./host-main.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const PROJECT = ['package.json', 'node_modules', 'packages', 'server'].map((name) =>
  join(ROOT, name),
)

/** Paths that every function process must be able to read, besides the function's files: Node and the project. */
export const HOST_PATHS = [process.execPath, ...PROJECT]

export interface HostSettings {
  /** The complete environment of a child. The service's variables are left out, because some of them hold secrets. */
  env: Record<string, string>
  /**
   * Memory limit in bytes, in addition to the memory of a fresh process. It applies both to the process alone and to
   * the process with all its descendants.
   */
  memoryBytes: number
  plan: IsolationPlan
}

export interface HostPurpose {
  /** Null for built-in rules. */
  target: FunctionTarget | null
  /** `host:port` of the router address; null if unknown. */
  rewardRouterAddress: string | null
  /** Called once, before the process is killed because it and its descendants exceeded a limit together. */
  onOver: (detail: string) => void
}

/**
 * A child process that runs user code. `channel` and `marks` (a pipe of status lines) are undefined if the process
 * could not be started.
 */
export interface StartedHost extends IsolatedProcess {
  /** The router address as the process reaches it; null if it cannot reach the router. */
  rewardRouterAddress: string | null
  channel: Duplex
  marks: Readable
}

/**
 * Starts a process for user code. It uses Node's `spawn` because pool libraries do not fit: workerpool gives each
 * process one task at a time, so 5,000 rewards that wait 40 s would need 5,000 processes. tinypool stops a task by
 * ending its process with all other tasks, and does not report which task was at fault.
 * @throws Error if the target's level of isolation is not available
 */
export function startHost(
  { env, memoryBytes, plan }: HostSettings,
  { target, rewardRouterAddress, onOver }: HostPurpose,
): StartedHost {
  const heapMb = Math.max(64, Math.round(memoryBytes / 2 ** 20))
  const level: Isolation = target?.isolation ?? 'process'
  const isAlone = level === 'sandbox' || plan.user === 'function'
  const network = level === 'sandbox' ? plan.network : 'open'
  const address = network === 'none' ? null : rewardRouterAddress
  const gateway = network === 'router' && address !== null ? serveRouter(address) : null
  const routerPort = gateway === null ? '' : (address?.split(':').at(-1) as string)
  const command = [
    process.execPath,
    `--max-old-space-size=${heapMb}`,
    // Node detects the module type from the text if no package.json sets it.
    '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
    '--disable-warning=ExperimentalWarning',
    MAIN,
    ...[`${memoryBytes}`, isAlone ? 'alone' : 'group', routerPort],
  ] as const
  const { child, kill, closed } = startIsolated(plan, {
    command,
    level,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    memoryBytes,
    binds: level === 'sandbox' ? bindsOf(target) : [],
    folderInside: SHARED_FOLDER,
    ...(gateway === null ? {} : { prepare: gateway.listen }),
    onOver,
  })
  child.once('exit', () => gateway?.close())
  // If no file descriptors are free, Node creates no streams and emits `error` after this turn of the event loop.
  const streams = (child.stdio ?? []) as unknown as (Duplex & Readable)[]
  return {
    child,
    kill,
    closed,
    rewardRouterAddress: gateway === null ? address : `127.0.0.1:${routerPort}`,
    channel: streams[CHANNEL_FD] as Duplex,
    marks: streams[MARKS_FD] as Readable,
  }
}

function bindsOf(target: FunctionTarget | null): SandboxBind[] {
  const versions = target === null ? [] : [target.dir, ...(target.wraps ? [target.wraps.dir] : [])]
  const modules = versions.flatMap((dir) => linkedModules(dir))
  return [...HOST_PATHS, ...versions, ...modules].map((from) => ({ from }))
}

function linkedModules(dir: string): string[] {
  const link = join(dir, 'node_modules')
  return existsSync(link) ? [readlinkSync(link), realpathSync(link)] : []
}
