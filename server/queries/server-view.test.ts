import { expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import type { DatabaseClock } from '../store/clock.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import type { FleetView } from './fleet-view.ts'
import { ServerView } from './server-view.ts'

const database = testDatabaseForFile()

it('a busy server has every minute that its charts show, and says that it has older events', async () => {
  const db = new Database(database.url, createLogger('error', 'test'), { max: 2, name: 'test' })
  try {
    const id = await insertServer(db)
    await db.adhoc(
      `insert into server_minute (server_id, minute, requests, errors, retries, latency_ms)
       select $1, date_trunc('minute', now()) - at * interval '1 minute', 1, 0, 0, array_fill(0, array[96]) from generate_series(0, 69) at`,
      [id],
    )
    const server = {
      id: `s${id}`,
      name: 'rm',
      model: 'rm',
      state: 'removed',
      stateSince: '2026-01-01',
    }
    const fleet = { seen: async () => ({ servers: [server], workers: [], recent: new Map() }) }
    const view = new ServerView(
      db,
      fleet as unknown as FleetView,
      { nowMs: () => Date.now() } as unknown as DatabaseClock,
    )
    expect((await view.get({ id: server.id })).minutes).toHaveLength(61)

    const addEvents = (count: number) =>
      db.adhoc(
        `insert into server_event (server_id, kind, "to", cause)
         select $1, 'health', 'ejected', '' from generate_series(1, $2)`,
        [id, count],
      )
    await addEvents(200)
    expect(await view.get({ id: server.id })).toMatchObject({ hasMoreEvents: false })
    await addEvents(1)
    const { events, hasMoreEvents } = await view.get({ id: server.id })
    expect([events.length, hasMoreEvents]).toEqual([200, true])
  } finally {
    await db.close()
  }
})
