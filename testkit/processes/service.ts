import { existsSync } from 'node:fs'
import { mkdir, open, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { type Child, startNode } from './child.ts'

/** The fields of `GET /healthz` on loopback that tests and benchmarks use. */
export interface Health {
  pids: { server: number; postgres: number | null; workers: number[] }
  /** Longest block of the server's event loop since the last reading, in ms. */
  eventLoopMaxMs?: number
}

export interface ServiceProcess extends Child {
  url: string
  logPath: string
  /** Time from the start to the first 200 of /healthz. */
  readyMs: number
  health(): Promise<Health>
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The server's entry file. Earlier checkouts, which `bench account` may compare with, have only `main.ts`. */
function entryOf(root: string): string {
  const entry = join(root, 'server/start.ts')
  return existsSync(entry) ? entry : join(root, 'server/main.ts')
}

const START_TIMEOUT_MS = 90_000

/**
 * Starts `server/start.ts` in production mode and waits until it accepts batches. Its log is a file in its data folder.
 * @throws when the service ends or is not ready within 90 s; the message contains the end of its log.
 */
export async function startService(options: {
  port: number
  dataDir: string
  /** Variables in addition to this process's environment. */
  env?: Record<string, string | undefined>
  /** The checkout whose service is started; this one by default. */
  root?: string
  /** Aborting the signal stops the wait and the service. */
  signal?: AbortSignal
}): Promise<ServiceProcess> {
  const dataDir = resolve(options.dataDir)
  await mkdir(dataDir, { recursive: true })
  const logPath = join(dataDir, 'service.log')
  const log = await open(logPath, 'w')
  const env: Record<string, string | undefined> = {
    LOG_LEVEL: 'info',
    ...process.env,
    NODE_ENV: 'production',
    ...options.env,
    PORT: String(options.port),
    REWARDOPS_DATA_DIR: dataDir,
  }
  const startedAt = performance.now()
  const child = await startNode(entryOf(options.root ?? ROOT), [], {
    env,
    stdio: ['ignore', log.fd, log.fd],
  })
  await log.close()
  const url = `http://${reachable(env.HOST)}:${options.port}`
  const health = async (): Promise<Health> => {
    const answer = await request(`${url}/healthz`)
    const text = await answer.body.text()
    if (answer.statusCode !== 200)
      throw new Error(`/healthz answered ${answer.statusCode}: ${text}`)
    return JSON.parse(text) as Health
  }

  let hasEnded = false
  child.ended.then(() => {
    hasEnded = true
  })
  let last = 'it did not answer'
  while (performance.now() - startedAt < START_TIMEOUT_MS && !hasEnded) {
    if (options.signal?.aborted) break
    try {
      await health()
      return { ...child, url, logPath, readyMs: performance.now() - startedAt, health }
    } catch (error) {
      last = (error as Error).message
    }
    await sleep(50)
  }
  const endedItself = hasEnded
  await child.stop()
  options.signal?.throwIfAborted()
  const why = endedItself ? 'ended while starting' : `was not ready within 90 s (${last})`
  const lines = (await readFile(logPath, 'utf8')).trimEnd().split('\n')
  // Stack frames would push the message out of the fifteen lines.
  const said = lines.filter((line) => !/^\s+at /.test(line)).slice(-15)
  throw new Error(`the service ${why}. The end of ${logPath}:\n${said.join('\n')}`)
}

function reachable(host: string | undefined): string {
  if (host === undefined || host === '' || host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host
}
