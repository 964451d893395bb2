import type { ServerState } from '../contract/servers.ts'
import { notify, notifySql } from './channels.ts'
import { databaseNow } from './clock.ts'
import type { Database } from './database.ts'
import { Prisma } from './generated/prisma/client.ts'
import { openPrisma, type PrismaClient } from './prisma.ts'
import {
  activeServers,
  changeState,
  prolongAwake,
  type ServerRow,
  type StoredLaunch,
  type StoredSelfTest,
  type StoredSettings,
  type Transition,
} from './sql/servers.ts'

export interface RegistrationFields extends StoredSettings {
  url: string
  engine: ServerRow['engine']
  kind: ServerRow['kind']
  model: string
}

export interface ProbedFacts {
  version: string | null
  maxModelLen: number | null
  /** Absent if the route was not probed because the server sleeps. The stored value then stays. */
  route?: ServerRow['route']
  plainText?: boolean
  /** Absent if the server does not report its labels. */
  label?: string | null
  maxConcurrent: number | null
  canSleep: boolean
  /** Absent if the server was not probed again. The stored value then stays. */
  warnings?: string[]
}

export interface Registration {
  fields: RegistrationFields
  /** Null if the server did not answer. The stored facts then stay. */
  facts: ProbedFacts | null
  /** Null if no self-test was made. If undefined, the stored self-test stays. */
  selfTest?: StoredSelfTest | null
  /** Null if the server was not launched. */
  launch: StoredLaunch | null
  state: ServerState
  cause: string
  evidence?: Record<string, unknown>
  /** The pool of the server's model; null while the model is not known. */
  pool: string | null
}

/** JSON for Prisma, which distinguishes SQL's NULL from JSON's null. */
function asJson(value: object | null): Prisma.InputJsonValue | typeof Prisma.DbNull {
  return value === null ? Prisma.DbNull : (value as Prisma.InputJsonValue)
}

export class ServerRegistry {
  readonly #db: Database
  readonly #prisma: PrismaClient

  constructor(db: Database) {
    this.#db = db
    this.#prisma = openPrisma(db)
  }

  /** Servers that were not removed. */
  active(): Promise<ServerRow[]> {
    return activeServers(this.#db)
  }

  async find(ref: {
    id?: string | undefined
    name?: string | undefined
  }): Promise<ServerRow | undefined> {
    const rows = await this.active()
    return rows.find((row) =>
      ref.id === undefined ? row.name === ref.name : `s${row.id}` === ref.id,
    )
  }

  async byNumber(id: number): Promise<ServerRow | undefined> {
    return (await this.active()).find((row) => row.id === id)
  }

  /** Registers a server, or updates the server of that name even if it was removed. Creates its pool if needed. */
  async save(name: string, registration: Registration): Promise<number> {
    const { fields, facts, selfTest, launch, state, cause, evidence, pool } = registration
    const before = await this.#prisma.server.findUnique({ where: { name } })
    const known = before !== null && before.removedAt === null
    const now = await databaseNow(this.#db.pool)
    const values = {
      ...(await this.#sealed(fields)),
      ...(facts ?? {}),
      ...(selfTest === undefined ? {} : { selfTest: asJson(selfTest) }),
      launch: asJson(launch),
      ...(known ? {} : { awakeUntil: null }),
      state,
      stateCause: cause,
      ...(facts ? { lastProbeAt: now } : {}),
    }
    const row = await this.#prisma.server.upsert({
      where: { name },
      create: { name, ...values },
      update: {
        ...values,
        removedAt: null,
        ...(known && before.state === state ? {} : { stateSince: now }),
      },
    })
    if (pool !== null) await this.#ensurePool(pool, fields.model)
    if (!known || before.state !== state) {
      await this.note(row.id, {
        kind: 'state',
        from: known ? before.state : null,
        to: state,
        cause,
        evidence,
      })
    }
    await this.changed()
    return row.id
  }

  async update(id: number, fields: Partial<RegistrationFields>): Promise<void> {
    await this.#prisma.server.update({ where: { id }, data: await this.#sealed(fields) })
    await this.changed()
  }

  async #sealed<T extends Partial<RegistrationFields>>(fields: T): Promise<T> {
    if (typeof fields.apiKey !== 'string') return fields
    const apiKey = await this.#db.secrets.seal(this.#db, 'server.api_key', fields.apiKey)
    return { ...fields, apiKey }
  }

  /** Stores a server's launch after another process has taken over the server. */
  async launchedBy(id: number, launch: StoredLaunch): Promise<void> {
    await this.#prisma.server.update({ where: { id }, data: { launch: asJson(launch) } })
  }

  /** Stores the model that a launched server reported, and the pool of the model. */
  async learnModel(id: number, model: string, pool: string): Promise<void> {
    await this.#prisma.server.update({ where: { id }, data: { model } })
    await this.#ensurePool(pool, model)
    await this.changed()
  }

  /** Creates a model's pool unless it exists. Two registrations of one model may arrive at the same moment. */
  async #ensurePool(name: string, model: string): Promise<void> {
    await this.#db.rows(
      'ensure-pool',
      'insert into pool (name, model) values ($1, $2) on conflict do nothing',
      [name, model],
    )
  }

  transition(id: number, change: Transition): Promise<ServerState | null> {
    return changeState(this.#db, id, change)
  }

  async explain(id: number, state: ServerState, cause: string): Promise<void> {
    const changed = await this.#db.rows(
      'server-explain',
      `update server set state_cause = $3 where id = $1 and state = $2 and state_cause is distinct from $3 returning id`,
      [id, state, cause],
    )
    if (changed.length > 0) await this.changed()
  }

  async note(
    id: number,
    event: {
      kind: 'state' | 'health' | 'process'
      from: string | null
      to: string
      cause: string
      evidence?: Record<string, unknown> | undefined
    },
  ): Promise<void> {
    await this.#db.rows(
      'server-event',
      `insert into server_event (server_id, kind, "from", "to", cause, evidence) values ($1, $2, $3, $4, $5, $6::jsonb)`,
      [
        id,
        event.kind,
        event.from,
        event.to,
        event.cause,
        event.evidence ? JSON.stringify(event.evidence) : null,
      ],
    )
  }

  /** Stores the result of a probe. `facts` is null if the server did not answer. */
  async probed(id: number, facts: ProbedFacts | null): Promise<void> {
    await this.#prisma.server.update({
      where: { id },
      data: { lastProbeAt: await databaseNow(this.#db.pool), ...(facts ?? {}) },
    })
  }

  async selfTested(id: number, selfTest: StoredSelfTest): Promise<void> {
    await this.#prisma.server.update({ where: { id }, data: { selfTest: asJson(selfTest) } })
  }

  prolong(ids: readonly number[], forMs: number): Promise<void> {
    return prolongAwake(this.#db, ids, forMs)
  }

  /** Marks a server as removed; its row stays, because samples refer to it. */
  async remove(id: number, cause: string): Promise<void> {
    await this.#db.rows(
      'server-remove',
      `with removed as (
         update server set removed_at = clock_timestamp(), awake_until = null
         where id = $1 and removed_at is null returning state),
       event as (
         insert into server_event (server_id, "from", "to", cause, kind)
         select $1, state, 'removed', $2, 'state' from removed)
       select ${notifySql('serversChanged')} from removed`,
      [id, cause],
    )
  }

  /** The cause of the last removal of a server; undefined if it was never removed. */
  async causeOfRemoval(name: string): Promise<string | undefined> {
    const [event] = await this.#db.rows<{ cause: string }>(
      'server-removal',
      `select e.cause from server s join server_event e on e.server_id = s.id
       where s.name = $1 and e."to" = 'removed' order by e.id desc limit 1`,
      [name],
    )
    return event?.cause
  }

  /** Notifies workers and pages to read the registry again. */
  async changed(): Promise<void> {
    await notify(this.#db.pool, 'serversChanged')
  }
}
