import type { ServerState } from '../wire/servers.ts'
import type { Database } from './database.ts'
import { openPrisma, type PrismaClient } from './prisma.ts'
import { activeServers, type ServerRow } from './sql/servers.ts'

/** What is known of a server when it is registered or changed. */
export interface ServerFacts {
  url: string
  engine: string
  kind: string
  model: string
  weight: number
  maxInFlight: number | null
  apiKey: string | null
  tags: string[]
  version: string | null
  maxModelLen: number | null
}

/** The table of registered servers, and every change of their state. */
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

  /** Registers a server, or updates the one of that name (also one that was removed); its pool comes with it. */
  async save(
    name: string,
    facts: ServerFacts,
    state: ServerState,
    cause: string,
    pool: string,
  ): Promise<number> {
    const before = await this.#prisma.server.findUnique({ where: { name } })
    const stateChange =
      before && before.removedAt === null && before.state === state
        ? {}
        : { stateSince: new Date() }
    const row = await this.#prisma.server.upsert({
      where: { name },
      create: { name, ...facts, state, stateCause: cause, lastProbeAt: new Date() },
      update: {
        ...facts,
        state,
        stateCause: cause,
        lastProbeAt: new Date(),
        removedAt: null,
        ...stateChange,
      },
    })
    await this.#prisma.pool.upsert({
      where: { name: pool },
      create: { name: pool, model: facts.model },
      update: {},
    })
    if (!before || before.removedAt !== null || before.state !== state) {
      const from = before && before.removedAt === null ? before.state : null
      await this.#prisma.serverEvent.create({ data: { serverId: row.id, from, to: state, cause } })
    }
    await this.changed()
    return row.id
  }

  /** Changes fields of a server. */
  async update(id: number, fields: Partial<ServerFacts>): Promise<void> {
    await this.#prisma.server.update({ where: { id }, data: fields })
    await this.changed()
  }

  /** Changes a server's state, with its cause; one that is in that state already stays as it is. */
  async setState(id: number, to: ServerState, cause: string): Promise<void> {
    const [row] = await this.#db.rows<{ from: string }>(
      'server-state',
      `with before as (select state from server where id = $1 for update)
       update server set state = $2, state_cause = $3, state_since = now()
       from before where server.id = $1 and before.state <> $2 and removed_at is null
       returning before.state as from`,
      [id, to, cause],
    )
    if (!row) return
    await this.#prisma.serverEvent.create({ data: { serverId: id, from: row.from, to, cause } })
    await this.changed()
  }

  async probed(
    id: number,
    facts: { version: string | null; maxModelLen: number | null } | null,
  ): Promise<void> {
    await this.#prisma.server.update({
      where: { id },
      data: { lastProbeAt: new Date(), ...(facts ?? {}) },
    })
  }

  /** Takes a server out; samples keep naming it. */
  async remove(id: number, cause: string): Promise<void> {
    const row = await this.#prisma.server.update({ where: { id }, data: { removedAt: new Date() } })
    await this.#prisma.serverEvent.create({
      data: { serverId: id, from: row.state, to: 'removed', cause },
    })
    await this.changed()
  }

  /** Tells the workers and the pages to read it again. */
  async changed(): Promise<void> {
    await this.#db.adhoc("select pg_notify('rewardops', 's')")
  }
}
