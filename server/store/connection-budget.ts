import type { Logger } from '../log.ts'
import { Database, type DatabaseOptions } from './database.ts'
import type { SecretBox } from './secret-box.ts'
import { START_SLOT_WAIT_MS } from './session.ts'

/** Maximum number of connections of a server process, its ingest thread included. */
export const MAX_SERVER_CONNECTIONS = 12
export const MAX_WORKER_CONNECTIONS = 4
/** Each process has one connection outside its pools, which listens for notifications. */
export const LISTENERS = 1

/**
 * The pools of a server. Statements that may be slow have pools of their own, so that trainers and the health check
 * do not wait for them. No transaction may take a second connection from its own pool.
 */
export const SERVER_POOLS = {
  /**
   * Submits, results, sweeps, and the slot leases for calls that this process makes. Rescores use at most two of the
   * connections.
   */
  api: { max: 4, name: 'rewardops server', keyed: true },
  /**
   * Queries of pages and metrics. The statement timeout ends the queries of slow charts. A metrics scrape waits at most
   * 2 s. While three slow queries use all connections, further queries fail after 5 s instead of waiting for those
   * three.
   */
  pages: {
    max: 3,
    name: 'rewardops pages',
    statementTimeoutMs: 10_000,
    queueTimeoutMs: 5_000,
    keyed: true,
  },
  /** Health check, and the session locks for self-tests, sleep and wake of reward-model servers. */
  control: {
    max: 1,
    name: 'rewardops control',
    statementTimeoutMs: 2_000,
    queryTimeoutMs: 2_500,
    staysOpen: true,
  },
  /** Exports and retention, one page or transaction at a time. */
  background: {
    max: 1,
    name: 'rewardops background',
    statementTimeoutMs: 30_000,
    keyed: true,
    lazyCommits: true,
  },
  /**
   * Large bodies, on the ingest thread. A body holds one connection while it arrives. The other connection serves all
   * other statements.
   */
  ingest: { max: 2, name: 'rewardops ingest', keyed: true },
} as const satisfies Record<string, DatabaseOptions>

/**
 * The pool of a worker. One connection writes results, so two remain for reading, claims and leases. Commits wait for
 * the disk. Otherwise, a crash could undo the fetch of a job, and a second worker would get the job with the same
 * attempt number.
 */
export const WORKER_POOL = {
  max: 3,
  name: 'rewardops worker',
  keyed: true,
  // All statements of a worker are repeatable, and none takes seconds.
  queryTimeoutMs: 30_000,
  slotWaitMs: Number.POSITIVE_INFINITY,
} as const satisfies DatabaseOptions

/** The pools of a server process; the ingest thread opens its own. */
export interface ServerDatabases {
  api: Database
  pages: Database
  control: Database
  background: Database
  setSecrets(secrets: SecretBox): void
  /** Marks the start as finished: from now on, requests wait for a connection slot at most 5 s instead of 60 s. */
  started(): void
  close(): Promise<void>
}

/** Connections are opened on first use. */
export function openServerDatabases(url: string, log: Logger): ServerDatabases {
  const open = (pool: DatabaseOptions) => new Database(url, log, pool)
  const { api, pages, control, background } = SERVER_POOLS
  const pools = {
    api: open(api),
    pages: open(pages),
    control: open(control),
    background: open(background),
  }
  const all = Object.values(pools)
  const requestWaitMs = pools.api.slotWaitMs
  for (const pool of all) pool.slotWaitMs = START_SLOT_WAIT_MS
  return {
    ...pools,
    setSecrets(secrets) {
      for (const pool of all) pool.secrets = secrets
    },
    started() {
      for (const pool of all) pool.slotWaitMs = requestWaitMs
    },
    async close() {
      await Promise.all(all.map((pool) => pool.close()))
    },
  }
}
