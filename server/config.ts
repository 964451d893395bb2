import { resolve } from 'node:path'
import { z } from 'zod'

/** An integer from the environment within bounds, or its default. */
const integer = (fallback: number, min: number, max: number) =>
  z.coerce.number().int().min(min).max(max).default(fallback)

/** Every setting, its unit and its default. A REWARDOPS_ name that is not here is an error at start. */
const Settings = z.object({
  /** TCP port of the one listener; 0 takes a free one. */
  PORT: integer(3000, 0, 65_535),
  HOST: z.string().min(1).default('127.0.0.1'),
  /** Unset: the embedded Postgres 18 under the data folder. */
  DATABASE_URL: z.string().optional(),
  REWARDOPS_DATA_DIR: z.string().min(1).default('.data'),
  /** RewardLoopWorker processes started here; 0: none. */
  REWARDOPS_WORKERS: integer(2, 0, 64),
  /** Keys, separated by commas. Unset: loopback only, no login. */
  REWARDOPS_API_KEYS: z.string().optional(),
  REWARDOPS_FUNCTIONS_DIR: z.string().min(1).default('functions'),
  /** A JSON file of servers to launch. */
  REWARDOPS_SERVERS_FILE: z.string().min(1).optional(),
  /** 1: servers.launch may start processes. */
  REWARDOPS_ALLOW_LAUNCH: z.enum(['0', '1']).default('0'),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  NODE_ENV: z.enum(['development', 'production', 'test']).default('production'),
})

/** The settings as the rest of the code sees them; passed inward from the composition roots. */
export interface Config {
  port: number
  host: string
  databaseUrl: string | null
  /** Absolute. Everything the service keeps on disk is under it, the Postgres socket excepted. */
  dataDir: string
  workers: number
  apiKeys: string[]
  functionsDir: string
  /** Absolute; the servers to launch. Null: none. */
  serversFile: string | null
  /** Whether servers.launch may start processes. */
  allowLaunch: boolean
  logLevel: string
  dev: boolean
  /** The environment as it was read, for the processes this one starts. */
  inherited: NodeJS.ProcessEnv
}

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|\[::1\]|localhost)$/i

/** Whether an address or host name can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

/** Reads the environment once. Throws an Error whose message lists every wrong setting. */
export function loadConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const given = Object.fromEntries(
    Object.entries(env).filter(([key, value]) => key in Settings.shape && value !== ''),
  )
  const unknown = Object.keys(env).filter(
    (key) => key.startsWith('REWARDOPS_') && !(key in Settings.shape) && !INTERNAL.has(key),
  )
  const parsed = Settings.safeParse(given)
  const problems = [
    ...unknown.map((key) => `${key} is not a setting of this version`),
    ...(parsed.success
      ? []
      : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)),
  ]
  if (!parsed.success || problems.length > 0) {
    throw new Error(
      `Settings are wrong:\n  ${problems.join('\n  ')}\nKnown settings: ${Object.keys(Settings.shape).join(', ')}`,
    )
  }
  const s = parsed.data
  const apiKeys = (s.REWARDOPS_API_KEYS ?? '')
    .split(',')
    .map((key) => key.trim())
    .filter(Boolean)
  if (apiKeys.some((key) => key.length < 8)) {
    throw new Error('REWARDOPS_API_KEYS: every key needs at least 8 characters')
  }
  if (!isLoopback(s.HOST) && apiKeys.length === 0) {
    throw new Error(
      `HOST=${s.HOST} can be reached from other machines and no keys are set. Set REWARDOPS_API_KEYS, or listen on 127.0.0.1.`,
    )
  }
  return {
    port: s.PORT,
    host: s.HOST,
    databaseUrl: s.DATABASE_URL ?? null,
    dataDir: resolve(s.REWARDOPS_DATA_DIR),
    workers: s.REWARDOPS_WORKERS,
    apiKeys,
    functionsDir: resolve(s.REWARDOPS_FUNCTIONS_DIR),
    serversFile: s.REWARDOPS_SERVERS_FILE === undefined ? null : resolve(s.REWARDOPS_SERVERS_FILE),
    allowLaunch: s.REWARDOPS_ALLOW_LAUNCH === '1',
    logLevel: s.LOG_LEVEL,
    dev: s.NODE_ENV === 'development',
    inherited: env,
  }
}

/** What the server hands its own workers, and the test scripts use; not settings of the service. */
const INTERNAL = new Set(['REWARDOPS_TEST_FULL', 'REWARDOPS_WORKER_LOCAL'])

/** What a worker process is told beside the settings: its database, and whether this server started it. */
export function loadWorkerHandover(env: NodeJS.ProcessEnv = process.env): { local: boolean } {
  return { local: env.REWARDOPS_WORKER_LOCAL === '1' }
}
