import {
  type FilledSettings,
  labelNamedFor,
  type SelfTestDto,
  type ServerDto,
  ServerSettings,
  type ServerState,
  settingsOf,
} from '../../contract/servers.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { notifySql } from '../channels.ts'
import type { Database } from '../database.ts'
import type { Server } from '../generated/prisma/client.ts'

export interface StoredSelfTest extends Omit<SelfTestDto, 'overridden'> {
  /** The calibration score at registration; null if the server returned none. A later score that differs is drift. */
  baseline?: number | null
  /** The calibration score of each text at registration; absent in self-tests of older versions. */
  baselines?: { score: number; promptTokens: number | null }[]
  /**
   * Time of the baseline, ISO 8601. If the scores of two servers differ, the server with the later baseline is the
   * outlier.
   */
  baselineAt?: string
}

/** The launch command of a server; environment values and keys are not stored. */
export interface StoredLaunch {
  /** Secrets are masked. */
  argv: string[]
  cwd: string | null
  /** Origin of the launch: `file` is REWARDOPS_SERVERS_FILE, `call` is servers.launch. */
  source: 'file' | 'call'
  /** The requested model, or null if the server reports its model once it answers. */
  model: string | null
  /**
   * True if the stored command suffices to start the server again: no environment was given, and nothing was masked.
   */
  complete: boolean
  /** Id of the server process that launched the server or took it over. Absent in launches of older versions. */
  processId?: number
}

export interface StoredSettings extends Omit<FilledSettings, 'route'> {
  /** The setting `route`. The column `route` holds the route that the probe found. */
  namedRoute: FilledSettings['route']
}

export function toStored(input: ServerSettings): StoredSettings {
  const { route: namedRoute, ...settings } = settingsOf(input)
  return { ...settings, namedRoute }
}

/** The settings with which a server was registered. */
export function settingsOfRow(row: StoredSettings & Pick<ServerRow, 'warnings'>): FilledSettings {
  return settingsOf({ ...row, route: row.namedRoute, label: labelNamedFor(row) })
}

export interface ServerRow extends StoredSettings {
  id: number
  name: string
  url: string
  engine: ServerDto['engine']
  kind: ServerDto['kind']
  model: string
  version: string | null
  maxModelLen: number | null
  state: ServerState
  stateCause: string | null
  stateSince: Date
  lastProbeAt: Date | null
  /** The scoring route that the probe found, or null for the engine's default. */
  route: FilledSettings['route']
  /** True if the model has no chat template and receives plain text. */
  plainText: boolean
  maxConcurrent: number | null
  canSleep: boolean
  warnings: string[]
  selfTest: StoredSelfTest | null
  awakeUntil: Date | null
  /**
   * Time in the current state (`stateAgeMs`) and time left until `awakeUntil` (`awakeLeftMs`, negative afterwards), in
   * ms on the database's clock.
   */
  stateAgeMs: number
  awakeLeftMs: number | null
  launch: StoredLaunch | null
  requests: string
  errors: string
  retries: string
  /** The error of decrypting the API key, or null if it can be decrypted or there is none. */
  keyProblem: string | null
}

// `satisfies` checks that every setting has a column.
const STORED_SETTINGS = Object.keys(
  toStored(ServerSettings.parse({})),
) as (keyof StoredSettings)[] satisfies (keyof Server)[]
const FIELDS: readonly (keyof ServerRow)[] = [
  ...(['id', 'name', 'url', 'engine', 'kind', 'model', 'version', 'maxModelLen'] as const),
  ...(['state', 'stateCause', 'stateSince', 'lastProbeAt', 'route', 'plainText'] as const),
  ...(['maxConcurrent', 'canSleep', 'warnings', 'selfTest', 'awakeUntil', 'launch'] as const),
  ...(['requests', 'errors', 'retries'] as const),
  ...STORED_SETTINGS,
]
const COLUMNS = FIELDS.map((field) => {
  const column = field.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`)
  return `${column} as "${field}"`
}).join(', ')

/**
 * Servers that were not removed, in order of registration. A server whose API key cannot be decrypted has
 * `keyProblem` and no key, and is unreachable for this process.
 */
export async function activeServers(db: Database): Promise<ServerRow[]> {
  const rows = await db.rows<Omit<ServerRow, 'keyProblem'>>(
    'servers-active',
    `select ${COLUMNS},
            (extract(epoch from clock_timestamp() - state_since) * 1000)::float8 as "stateAgeMs",
            (extract(epoch from awake_until - clock_timestamp()) * 1000)::float8 as "awakeLeftMs"
     from server where removed_at is null order by id`,
  )
  return rows.map((row) => {
    const { secret, problem } = db.secrets.tryOpen('server.api_key', row.apiKey)
    if (problem === null) return { ...row, apiKey: secret, keyProblem: null }
    const stateCause = `its API key cannot be read: ${problem}. Enter the API key again, or start the service with the right secrets key`
    return { ...row, apiKey: null, keyProblem: problem, state: 'unreachable', stateCause }
  })
}

export interface Transition {
  to: ServerState
  cause: string
  evidence?: Record<string, unknown> | undefined
  /** The states from which the change is made. Any state if undefined. */
  from?: readonly ServerState[]
  /** Minimum time in ms for which the server stays awake, or null if it was not woken. Unchanged if undefined. */
  awakeForMs?: number | null
}

/**
 * Changes a server's state, logs the event and notifies all processes, in one statement. Returns the previous state, or
 * null if nothing changed because the server already had the state, had none of the states in `from`, or was removed.
 */
export async function changeState(
  db: Database,
  id: number,
  change: Transition,
): Promise<ServerState | null> {
  const { to, cause, evidence, from, awakeForMs } = change
  const [row] = await db.rows<{ from: ServerState }>(
    'server-state',
    `with before as (
       select state from server where id = $1 and removed_at is null and state <> $2
         and ($4::text[] is null or state = any($4)) for update),
     changed as (
       update server set state = $2, state_cause = $3, state_since = clock_timestamp(),
         awake_until = case when $6 then clock_timestamp() + $7 * interval '1 millisecond' else awake_until end
       from before where server.id = $1 returning before.state as "from"),
     event as (
       insert into server_event (server_id, "from", "to", cause, evidence, kind)
       select $1, "from", $2, $3, $5::jsonb, 'state' from changed)
     select "from", ${notifySql('serversChanged')} from changed`,
    [
      id,
      to,
      cause,
      from ?? null,
      evidence ? JSON.stringify(evidence) : null,
      awakeForMs !== undefined,
      awakeForMs ?? null,
    ],
  )
  return row?.from ?? null
}

export async function prolongAwake(
  db: Database,
  ids: readonly number[],
  forMs: number,
): Promise<void> {
  if (ids.length === 0) return
  await db.rows(
    'server-awake',
    `update server set awake_until = greatest(awake_until, clock_timestamp() + $2 * interval '1 millisecond')
     where id = any($1::int[])`,
    [ids, forMs],
  )
}

/**
 * The number of a server's slots in leases whose lifetime and grace period have not passed. The caller first commits a
 * state other than `ready`. Leases are granted under the lock that this function takes, so once the result is 0, no
 * process gets a slot.
 */
export async function leasedSlots(db: Database, id: number): Promise<number> {
  return db.transaction(async (client) => {
    await client.query('select pg_advisory_xact_lock($1, hashtext($2))', [
      ADVISORY_LOCKS.lease,
      `server:${id}`,
    ])
    // This is a separate statement, so that its snapshot is taken after the lock.
    const { rows } = await client.query<{ slots: number }>(
      `select coalesce(sum(slots), 0)::int as slots from lease
       where resource = $1 and expires_at + grace_ms * interval '1 millisecond' > clock_timestamp()`,
      [`server:${id}`],
    )
    return rows[0]!.slots
  })
}

export interface SleepRequest {
  id: number
  model: string
  sleep_after: boolean
  open: boolean
}

/**
 * Returns one entry for each model of each unfinished batch, and of each batch that ended in the last minute and has an
 * id above `afterId`. Ended batches are included because a batch that was accepted and ended between two checks also
 * requests sleep.
 */
export async function sleepRequests(db: Database, afterId: number): Promise<SleepRequest[]> {
  return db.rows<SleepRequest>(
    'sleep-requests',
    `select id, m.model, coalesce((reward->>'sleepAfter')::boolean, false) as sleep_after,
            status in ('open', 'running') as open
     from (select id, reward, status from batch where status in ('open', 'running')
           union all
           select id, reward, status from batch where id > $1 and status not in ('open', 'running')
             and completed_at > clock_timestamp() - interval '1 minute') b,
     lateral (select whole->>'model' as model from (values (reward), (reward->'wraps')) as of (whole)
              union
              select part->'reward'->>'model'
              from (values (reward), (reward->'wraps')) as of (whole), jsonb_array_elements(whole->'components') part) m
     where m.model is not null`,
    [afterId],
  )
}

/**
 * The models with a registered server. `may_sleep` is true if one of their servers can sleep, or does not answer and
 * might be able to sleep.
 */
export async function servedModels(
  db: Database,
): Promise<{ model: string; kind: string; may_sleep: boolean }[]> {
  return db.rows(
    'models',
    `select model, kind, bool_or(can_sleep or state in ('unreachable', 'dead', 'registering')) as may_sleep
     from server where removed_at is null group by model, kind order by 1`,
  )
}

/** Stores the reason why a server is draining. Returns false if the server is not draining. */
export async function noteDrainingCause(db: Database, id: number, cause: string): Promise<boolean> {
  const rows = await db.rows(
    'server-going-to-sleep',
    `update server set state_cause = $2 where id = $1 and state = 'draining' and removed_at is null returning id`,
    [id, cause],
  )
  return rows.length > 0
}
