import type { Logger } from '../log.ts'
import { Database, type DatabaseOptions } from './database.ts'
import { START_SLOT_WAIT_MS } from './session.ts'

/** Connections of a server process at most, with its ingest thread. */
export const MAX_SERVER_CONNECTIONS = 12
/** Connections of a worker process at most. */
export const MAX_WORKER_CONNECTIONS = 4
/** Each process has one connection beside its pools, on which it listens for notifications. */
export const LISTENERS = 1

/**
 * The pools of a server. Statements that may take long are kept apart from those that trainers and the health check
 * wait for. No transaction may ask its own pool for a second connection.
 */
export const SERVER_POOLS = {
  /** Submits, results, sweeps, the shares of the server's own calls. Rescores hold at most two of them. */
  api: { max: 4, name: 'rewardops server', keyed: true },
  /** A time limit, so that slow charts end. Metrics too, which wait 2 s at most. */
  pages: { max: 3, name: 'rewardops pages', statementTimeoutMs: 10_000, keyed: true },
  /** Health check, and the session locks under which reward-model servers are tested, put to sleep or woken. */
  control: {
    max: 1,
    name: 'rewardops control',
    statementTimeoutMs: 2_000,
    queryTimeoutMs: 2_500,
    staysOpen: true,
  },
  /** Exports and retention, a page or a piece at a time. */
  background: {
    max: 1,
    name: 'rewardops background',
    statementTimeoutMs: 30_000,
    keyed: true,
    lazyCommits: true,
  },
  /** Large bodies, in a thread of their own: one holds a connection while it arrives, the other connection serves the rest. */
  ingest: { max: 2, name: 'rewardops ingest', keyed: true },
} as const satisfies Record<string, DatabaseOptions>

/** The pool of a worker. One connection writes results, so that two remain for reading, claims and leases. */
export const WORKER_POOL = {
  max: 3,
  name: 'rewardops worker',
  keyed: true,
  lazyCommits: true,
  // All its statements may be sent again, and none takes seconds.
  queryTimeoutMs: 30_000,
  slotWaitMs: Number.POSITIVE_INFINITY,
} as const satisfies DatabaseOptions

/** The pools of a server process; the ingest thread opens its own. */
export interface ServerDatabases {
  api: Database
  pages: Database
  control: Database
  background: Database
  /** Requests wait 5 s for a connection slot from now on; before, a minute. */
  started(): void
  close(): Promise<void>
}

/** Opens the pools of a server. Connections are made when they are first needed. */
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
    started() {
      for (const pool of all) pool.slotWaitMs = requestWaitMs
    },
    async close() {
      await Promise.all(all.map((pool) => pool.close()))
    },
  }
}
