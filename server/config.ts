import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { basePathProblem } from './base-path.ts'
import { configuredKeys } from './configured-keys.ts'
import {
  ISOLATION_LEVELS,
  type Isolation,
  SANDBOX_NETWORKS,
  type SandboxNetwork,
} from './contract/isolation.ts'
import { LOCAL_SANDBOX, sandboxAddress } from './contract/sandbox.ts'
import { networksOf } from './networks.ts'

const integer = (fallback: number, min: number, max: number) =>
  z.coerce.number().int().min(min).max(max).default(fallback)

const text = (meaning: string) => z.string().optional().describe(meaning)

const networks = () =>
  z
    .string()
    .superRefine((list, context) => {
      try {
        networksOf(listed(list))
      } catch (error) {
        context.addIssue((error as Error).message)
      }
    })
    .optional()

/** Variables without secrets, which every function may read. */
const HARMLESS = [
  'PATH',
  'HOME',
  'TMPDIR',
  'LANG',
  'LC_ALL',
  'TZ',
  'NODE_ENV',
  'NODE_EXTRA_CA_CERTS',
]

/**
 * All settings with their defaults. The descriptions become the table of docs/settings.md. An unknown REWARDOPS_ name is
 * an error at start.
 */
export const Settings = z.object({
  PORT: integer(3000, 0, 65_535).describe(
    'TCP port; `0`: a free port, which the first line of output shows',
  ),
  HOST: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('listen address; any address but loopback requires `REWARDOPS_API_KEYS`'),
  DATABASE_URL: text(
    'Postgres 14 or newer ([Postgres](deployment.md#postgres)); unset: embedded Postgres 18 in the data folder',
  ),
  REWARDOPS_DATA_DIR: z
    .string()
    .min(1)
    .default('.data')
    .describe(
      'folder of all files that the service writes. A relative path is relative to the rewardops folder or, if the service is installed from a tarball, to the current folder',
    ),
  REWARDOPS_BASE_PATH: z
    .string()
    .superRefine((path, context) => {
      const problem = basePathProblem(path)
      if (problem !== null) context.addIssue(problem)
    })
    .default('')
    .describe(
      '[path prefix](deployment.md#path-prefix) under which a proxy serves the pages and the API, such as `/rewardops`',
    ),
  REWARDOPS_PAGES: z
    .enum(['0', '1'])
    .default('1')
    .describe('`0` serves the API without the dashboard'),
  REWARDOPS_WORKERS: integer(2, 0, 64).describe(
    'number of worker processes that the server starts; `0`: none',
  ),
  REWARDOPS_SAMPLES_PER_CALL: integer(8, 1, 32).describe(
    'maximum samples in one request to a fast reward model ([micro-batching](router.md#micro-batching)); `1` turns micro-batching off',
  ),
  REWARDOPS_DRAIN_SECONDS: integer(30, 0, 3_600).describe(
    'maximum seconds that a stopping service waits for requests to the [router address](router.md) to finish',
  ),
  REWARDOPS_API_KEYS: text(
    '[API keys](access.md#keys), separated by commas: `KEY` for an admin key, or `ROLE:KEY`, such as `viewer:KEY`; unset: the service needs no key and accepts only requests from this machine, unless an admin [requires keys](access.md#requiring-api-keys)',
  ),
  REWARDOPS_TRUSTED_PROXIES: networks().describe(
    'addresses and networks of [proxies](deployment.md#proxies) whose forwarding headers the service trusts, separated by commas',
  ),
  REWARDOPS_ALLOWED_HOSTS: text(
    'host names under which clients may call the service, separated by commas; loopback names are always allowed ([access](access.md)); unset: all names if API keys are required, otherwise only loopback names',
  ),
  REWARDOPS_EGRESS_ALLOW: z
    .string()
    .default('loopback,private,public')
    .describe(
      '[addresses that the service may call](#outgoing-calls) for reward models, sandboxes and webhooks',
    ),
  REWARDOPS_TLS_CERT: text(
    'PEM file of the certificate with its chain. Together with `REWARDOPS_TLS_KEY`, it turns on [TLS](deployment.md#tls-of-the-service)',
  ),
  REWARDOPS_TLS_KEY: text('PEM file of the private key of the certificate'),
  REWARDOPS_SESSION_DAYS: integer(7, 1, 365).describe(
    'number of days after which a [login session](access.md#signing-in) ends',
  ),
  REWARDOPS_SESSION_IDLE_HOURS: integer(24, 1, 8_760).describe(
    'number of hours without a request after which a login session ends',
  ),
  REWARDOPS_MAX_IMAGE_MB: integer(8, 1, 128).describe(
    'maximum size of an image in a message, in MiB ([trajectories](batches.md#trajectories))',
  ),
  REWARDOPS_SECRETS_KEY: text(
    'keys that [encrypt secrets](deployment.md#encrypted-secrets) in the database, separated by commas. Each has 32 bytes, in hexadecimal or base64. The first key encrypts; all keys decrypt. Unset: the keys of `REWARDOPS_SECRETS_KEY_FILE`',
  ),
  REWARDOPS_SECRETS_KEY_FILE: text(
    'file with the keys that encrypt secrets, one per line; unset: `secrets.key` in the data folder, which the first server creates',
  ),
  REWARDOPS_LOST_SECRETS_KEY: z
    .string()
    .regex(/^[0-9a-f]{8}$/, 'expected the id of the key, which a refused start prints')
    .optional()
    .describe(
      'id of a [lost secrets key](deployment.md#a-lost-secrets-key) that a server may replace when it starts',
    ),
  REWARDOPS_FUNCTIONS_DIR: z
    .string()
    .min(1)
    .default('functions')
    .describe('folder of [custom reward functions](functions.md)'),
  REWARDOPS_FUNCTION_PROCESSES: integer(0, 0, 256).describe(
    'maximum number of processes in which a worker runs functions; `0`: the number of cores divided by `REWARDOPS_WORKERS`, at least 2. Each function has at least one process',
  ),
  REWARDOPS_FUNCTION_MEMORY_MB: integer(1_024, 64, 1 << 20).describe(
    'memory in MiB that a function process may use in addition to its memory at start (about 100 MiB)',
  ),
  REWARDOPS_FUNCTION_ENV: text(
    `names of environment variables, separated by commas, that functions may read in addition to ${HARMLESS.map((name) => `\`${name}\``).join(', ')}`,
  ),
  REWARDOPS_FUNCTION_ISOLATION: z
    .enum(ISOLATION_LEVELS)
    .default('process')
    .describe(
      '[isolation level](security.md#isolation-of-reward-functions) of reward functions: `process` or `sandbox`. Set the same value on all machines',
    ),
  REWARDOPS_FUNCTION_NETWORK: z
    .enum(SANDBOX_NETWORKS)
    .default('router')
    .describe(
      'network of functions at the level `sandbox`: `none`, `router` (the router address only) or `open`',
    ),
  REWARDOPS_SANDBOXES: text(
    '[code sandboxes](code-rewards.md#other-sandboxes) that rewards may select by name, separated by commas: `name=http://host:8080`',
  ),
  REWARDOPS_SANDBOX_PYTHON: z
    .string()
    .startsWith('/')
    .optional()
    .describe(
      'path of the Python interpreter of the [code sandbox](code-rewards.md#the-sandbox-of-the-service); unset: `/usr/bin/python3` or `/usr/local/bin/python3`',
    ),
  REWARDOPS_SANDBOX_SLOTS: integer(0, 0, 1_024).describe(
    'maximum number of programs that the code sandbox runs concurrently; `0`: the number of cores',
  ),
  REWARDOPS_SANDBOX_LISTEN: z
    .string()
    .regex(/^.+:\d{1,5}$/, 'expected host:port')
    .default('127.0.0.1:8080')
    .describe('address on which a separate code sandbox (`npm run sandbox`) listens'),
  REWARDOPS_SERVERS_FILE: text('JSON file of [servers to launch](servers.md#launching-servers)'),
  REWARDOPS_ALLOW_LAUNCH: z
    .enum(['0', '1'])
    .default('0')
    .describe('`1` allows admins to start processes on this machine with `servers.launch`'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe(
      'lowest level of the log lines: `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent` (no log). Log lines are JSON on stderr',
    ),
  NODE_ENV: z.enum(['development', 'production', 'test']).default('production'),
})

export type Config = ReturnType<typeof loadConfig>

/** Sampling and export of traces. The exporter itself reads the other OTEL_EXPORTER_OTLP_ variables. */
export interface TracingConfig {
  protocol: 'http/protobuf' | 'http/json'
  sampler: (typeof SAMPLERS)[number]
  /** Share of traces to record, used by ratio-based samplers. */
  ratio: number
}

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const
const OTLP_PROTOCOLS = ['http/protobuf', 'http/json'] as const
/** Share of batches that are traced if OTEL_TRACES_SAMPLER_ARG is not set. */
const TRACED_RATIO = 0.01

/** Reads the standard variables of OpenTelemetry. Tracing is off without an endpoint. @throws Error for wrong values */
function tracingConfig(env: NodeJS.ProcessEnv): TracingConfig | null {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT
  const isDisabled = env.OTEL_SDK_DISABLED?.toLowerCase() === 'true'
  if (!endpoint || isDisabled || env.OTEL_TRACES_EXPORTER === 'none') return null
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw new Error(`OTEL_EXPORTER_OTLP_ENDPOINT: expected an HTTP or HTTPS URL, not ${endpoint}`)
  }
  const oneOf = <T extends string>(name: string, values: readonly T[], given: string): T => {
    const value = values.find((one) => one === given)
    if (value === undefined) {
      throw new Error(`${name}: ${given} is not supported; use one of ${values.join(', ')}`)
    }
    return value
  }
  const protocol = env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL
  const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG || TRACED_RATIO)
  if (!(ratio >= 0 && ratio <= 1)) {
    throw new Error('OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1')
  }
  return {
    protocol: oneOf('OTEL_EXPORTER_OTLP_PROTOCOL', OTLP_PROTOCOLS, protocol || 'http/protobuf'),
    sampler: oneOf(
      'OTEL_TRACES_SAMPLER',
      SAMPLERS,
      env.OTEL_TRACES_SAMPLER || 'parentbased_traceidratio',
    ),
    ratio,
  }
}

/** A setting in force, named by its environment variable. */
export interface SettingInForce {
  name: string
  /** For a secret, only whether it is set; for API keys, also their number. */
  value: string
  isDefault: boolean
  /** Whether the value is a path on this machine. Only admins see paths. */
  isPath: boolean
}

/** Settings of custom reward functions. The object can be passed to a thread. */
export interface FunctionConfig {
  /** Absolute path of the folder with the functions. It need not exist. */
  functionsDir: string
  /** Absolute path of the folder in which versions of functions are unpacked. */
  versionsDir: string
  maxProcesses: number
  settings: {
    /** The complete environment of a function process, without the service's own variables. */
    env: Record<string, string>
    /** Memory that a function process may use beyond its memory at start. */
    memoryBytes: number
  }
  isolation: { level: Isolation; network: SandboxNetwork }
}

function functionEnvironment(
  env: NodeJS.ProcessEnv,
  names: readonly string[],
): Record<string, string> {
  const secret = names.find((name) => /^(DATABASE_URL|REWARDOPS_.*|PG.*)$/.test(name))
  if (secret !== undefined) {
    throw new Error(
      `REWARDOPS_FUNCTION_ENV: ${secret} belongs to the service and cannot be passed to functions`,
    )
  }
  return Object.fromEntries(
    [...HARMLESS, ...names].flatMap((name) => {
      const value = env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|\[::1\]|localhost)$/i

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

const SSL_VARIABLES = {
  PGSSLMODE: 'sslmode',
  PGSSLROOTCERT: 'sslrootcert',
  PGSSLCERT: 'sslcert',
  PGSSLKEY: 'sslkey',
  PGSSLNEGOTIATION: 'sslnegotiation',
}

/** Adds the SSL parameters that are set in the environment but not in the connection string. */
function withSslOf(env: NodeJS.ProcessEnv, databaseUrl: string): string {
  const url = URL.parse(databaseUrl)
  if (!url) return databaseUrl
  let isChanged = false
  for (const [variable, parameter] of Object.entries(SSL_VARIABLES)) {
    const value = env[variable]
    if (!value || url.searchParams.has(parameter)) continue
    if (parameter === 'sslmode' && url.searchParams.has('ssl')) continue
    url.searchParams.set(parameter, value)
    isChanged = true
  }
  return isChanged ? url.href : databaseUrl
}

/** Reads the environment once. @throws Error whose message lists every wrong setting */
export function loadConfig(env: NodeJS.ProcessEnv = process.env) {
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
  const apiKeys = configuredKeys(listed(s.REWARDOPS_API_KEYS))
  if (!isLoopback(s.HOST) && apiKeys.length === 0) {
    throw new Error(
      `HOST=${s.HOST} can be reached from other machines and no keys are set. Set REWARDOPS_API_KEYS, or listen on 127.0.0.1.`,
    )
  }
  const { REWARDOPS_TLS_CERT: certFile, REWARDOPS_TLS_KEY: keyFile } = s
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new Error('REWARDOPS_TLS_CERT and REWARDOPS_TLS_KEY must be set together')
  }
  if (s.REWARDOPS_SECRETS_KEY !== undefined && s.REWARDOPS_SECRETS_KEY_FILE !== undefined) {
    throw new Error('Set REWARDOPS_SECRETS_KEY or REWARDOPS_SECRETS_KEY_FILE, not both.')
  }
  const functionsDir = resolve(s.REWARDOPS_FUNCTIONS_DIR)
  const dataDir = resolve(s.REWARDOPS_DATA_DIR)
  const cores = Math.floor(availableParallelism() / Math.max(1, s.REWARDOPS_WORKERS))
  return {
    port: s.PORT,
    host: s.HOST,
    databaseUrl: s.DATABASE_URL === undefined ? null : withSslOf(env, s.DATABASE_URL),
    dataDir,
    /** The prefix of all paths in the browser, without a trailing slash. Empty if there is no prefix. */
    basePath: s.REWARDOPS_BASE_PATH,
    pages: s.REWARDOPS_PAGES === '1',
    workers: s.REWARDOPS_WORKERS,
    samplesPerCall: s.REWARDOPS_SAMPLES_PER_CALL,
    drainMs: 1_000 * s.REWARDOPS_DRAIN_SECONDS,
    apiKeys,
    trustedProxies: listed(s.REWARDOPS_TRUSTED_PROXIES),
    /** In lower case and without ports. */
    allowedHosts: listed(s.REWARDOPS_ALLOWED_HOSTS?.toLowerCase()),
    egressAllow: listed(s.REWARDOPS_EGRESS_ALLOW),
    /** Absolute paths, or null if TLS is off. */
    tls:
      certFile === undefined || keyFile === undefined
        ? null
        : { certFile: resolve(certFile), keyFile: resolve(keyFile) },
    sessions: {
      maxAgeMs: 86_400_000 * s.REWARDOPS_SESSION_DAYS,
      idleMs: 3_600_000 * s.REWARDOPS_SESSION_IDLE_HOURS,
    },
    maxImageBytes: s.REWARDOPS_MAX_IMAGE_MB * 2 ** 20,
    /** `value`: null if the keys are read from `file`. `lost`: the id of a lost key, which a server may replace. */
    secrets: {
      value: s.REWARDOPS_SECRETS_KEY ?? null,
      file: resolve(s.REWARDOPS_SECRETS_KEY_FILE ?? join(dataDir, 'secrets.key')),
      lost: s.REWARDOPS_LOST_SECRETS_KEY ?? null,
    },
    functionsDir,
    functions: {
      functionsDir,
      versionsDir: join(dataDir, 'functions'),
      maxProcesses: s.REWARDOPS_FUNCTION_PROCESSES || Math.max(2, cores),
      settings: {
        env: functionEnvironment(env, listed(s.REWARDOPS_FUNCTION_ENV)),
        memoryBytes: s.REWARDOPS_FUNCTION_MEMORY_MB * 2 ** 20,
      },
      isolation: {
        level: s.REWARDOPS_FUNCTION_ISOLATION,
        network: s.REWARDOPS_FUNCTION_NETWORK,
      },
    } satisfies FunctionConfig,
    sandbox: {
      /** URLs of sandboxes, without `/run_code`, by name. */
      named: namedAddresses(s.REWARDOPS_SANDBOXES),
      /** Path of the interpreter. Null means /usr/bin/python3 or /usr/local/bin/python3. */
      python: s.REWARDOPS_SANDBOX_PYTHON ?? null,
      slots: s.REWARDOPS_SANDBOX_SLOTS || availableParallelism(),
      /** Address on which `npm run sandbox` listens. */
      ...hostAndPort(s.REWARDOPS_SANDBOX_LISTEN),
    },
    serversFile: s.REWARDOPS_SERVERS_FILE === undefined ? null : resolve(s.REWARDOPS_SERVERS_FILE),
    allowLaunch: s.REWARDOPS_ALLOW_LAUNCH === '1',
    logLevel: s.LOG_LEVEL,
    /** Export of traces, or null if it is off. */
    tracing: tracingConfig(env),
    dev: s.NODE_ENV === 'development',
    settings: Object.keys(Settings.shape)
      .filter((name) => name !== 'NODE_ENV')
      .map((name) => inForce(name, s[name as keyof typeof s], !(name in given))),
    /** The environment as it was read, for child processes. */
    inherited: env,
  }
}

const PATHS = /_(DIR|FILE|PYTHON|TLS_CERT|TLS_KEY)$/

function inForce(name: string, value: unknown, isDefault: boolean): SettingInForce {
  const about = { name, isDefault, isPath: value !== undefined && PATHS.test(name) }
  if (value === undefined) return { ...about, value: 'unset' }
  if (!SECRETS.includes(name)) return { ...about, value: String(value) }
  const keys = name === 'REWARDOPS_API_KEYS' ? listed(String(value)).length : 0
  return { ...about, value: keys === 0 ? 'set' : `${keys} set` }
}

function listed(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)
}

/** Reads REWARDOPS_SANDBOXES. @throws Error for anything but names and URLs */
function namedAddresses(text: string | undefined): Record<string, string> {
  const named: Record<string, string> = {}
  for (const entry of listed(text)) {
    const [, name = '', address = ''] = /^([\w-]+)\s*=\s*(.+)$/.exec(entry) ?? []
    const url = sandboxAddress(address)
    if (url === null || name === LOCAL_SANDBOX || name in named) {
      throw new Error(
        `REWARDOPS_SANDBOXES: ${JSON.stringify(entry)} is not name=http://host:port with a unique name other than "${LOCAL_SANDBOX}"`,
      )
    }
    named[name] = url
  }
  return named
}

function hostAndPort(address: string): { host: string; port: number } {
  const at = address.lastIndexOf(':')
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) }
}

/**
 * Variables that are allowed although they are not settings: those of clients and test scripts, which may run in the
 * same shell, and those that a server passes to its workers and its sandbox.
 */
const INTERNAL = new Set([
  'REWARDOPS_URL',
  'REWARDOPS_API_KEY',
  'REWARDOPS_TEST_FULL',
  'REWARDOPS_TEST_CLUSTER',
  'REWARDOPS_WORKER_LOCAL',
  'REWARDOPS_WORKER_ROUTER',
  'REWARDOPS_SANDBOX_SOCKET',
])

/**
 * Secrets that a server passes to its workers on standard input, because /proc shows the environment of a process.
 */
const HANDED_OVER = ['DATABASE_URL', 'PGPASSWORD', 'REWARDOPS_SECRETS_KEY']
/** Secrets of the server that its workers do not need. */
const SERVER_SECRETS = [
  'REWARDOPS_API_KEYS',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
]
const SECRETS = [...HANDED_OVER, ...SERVER_SECRETS]

export function withoutSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const left = { ...env }
  for (const name of SECRETS) delete left[name]
  return left
}

/** Splits the environment of a local worker: the variables it inherits, and the text to write to its standard input. */
export function workerEnvironment(
  inherited: NodeJS.ProcessEnv,
  { databaseUrl, routerAddress }: { databaseUrl: string; routerAddress: string },
): { env: NodeJS.ProcessEnv; input: string } {
  const env: NodeJS.ProcessEnv = {
    ...withoutSecrets(inherited),
    REWARDOPS_WORKER_LOCAL: '1',
    REWARDOPS_WORKER_ROUTER: routerAddress,
  }
  // Workers do not listen. A HOST other than loopback would also make their settings invalid, because it requires API
  // keys, which workers do not receive.
  delete env.HOST
  delete env.PORT
  return { env, input: JSON.stringify({ ...inherited, DATABASE_URL: databaseUrl }, HANDED_OVER) }
}

/**
 * Reads a worker's start parameters besides the settings: whether a server on this machine started it, and the
 * `host:port` of the router address, for functions that call reward models themselves. Call it before
 * {@link loadConfig}, because it adds the variables from the server to `env`.
 */
export function loadWorkerHandover(env: NodeJS.ProcessEnv = process.env): {
  local: boolean
  routerAddress: string | null
} {
  const local = env.REWARDOPS_WORKER_LOCAL === '1'
  if (local) Object.assign(env, JSON.parse(readFileSync(0, 'utf8')))
  return {
    local,
    routerAddress: env.REWARDOPS_WORKER_ROUTER ?? null,
  }
}

/** The Unix socket of a sandbox that a server or worker started. Null if `npm run sandbox` started it. */
export function loadSandboxHandover(env: NodeJS.ProcessEnv = process.env): {
  socketPath: string | null
} {
  return { socketPath: env.REWARDOPS_SANDBOX_SOCKET ?? null }
}
