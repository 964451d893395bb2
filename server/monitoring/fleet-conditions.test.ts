import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import type { FleetServerRow } from '../store/sql/monitor-state.ts'
import { checkFleet, fleetConditions } from './fleet-conditions.ts'

const server = (name: string, model: string, state: string, for_ms = 60_000): FleetServerRow => ({
  ...{ name, model, state, for_ms, state_cause: state === 'ready' ? null : 'refused' },
})
const conditions = (servers: FleetServerRow[]) =>
  fleetConditions(servers).map(({ monitor, subject }) => `${monitor} ${subject}`)

describe('conditions of the fleet', () => {
  it('include each unavailable server and each model without an available one', () => {
    const a = [server('a1', 'a', 'dead'), server('a2', 'a', 'unreachable')]
    const b = [server('b1', 'b', 'quarantined'), server('b2', 'b', 'ready')]
    expect(conditions([...a, ...b])).toEqual([
      ...[
        'no_healthy_server a',
        'server_unavailable a1',
        'server_unavailable a2',
        'server_unavailable b1',
      ],
    ])
    expect(fleetConditions(b)[0]?.detail).toBe('quarantined: refused')
  })

  it('leave out servers that are draining, sleeping or starting, and recent outages', () => {
    const wanted = ['draining', 'sleeping', 'waking', 'probing', 'registering']
    expect(conditions(wanted.map((state) => server(state, state, state)))).toEqual([])
    expect(conditions([server('a1', 'a', 'unreachable', 9_999)])).toEqual([])
  })
})

describe('incidents of the fleet', () => {
  const database = testDatabaseForFile()
  let db: Database
  beforeAll(() => {
    db = new Database(database.url, createLogger('error', 'test'), { max: 2, name: 'test' })
  })
  afterAll(() => db.close())

  it('open once, notify webhooks for servers, and end only when the server is back or removed', async () => {
    await db.adhoc(
      `insert into webhook (name, url, severities, monitors, runs, fleet, created_by, created_at)
       select name, 'http://x.example', severities::text[], '{}', '{}', fleet, 'a', now() + later::interval from (values
         ('all', '{warning,alerting}', true, '0'), ('bad alone', '{alerting}', true, '0'),
         ('runs alone', '{warning,alerting}', false, '0'), ('created later', '{warning,alerting}', true, '1 hour')
       ) as v(name, severities, fleet, later)`,
    )
    await db.adhoc(
      `insert into server (name, url, engine, kind, model, tags, state, state_since) values
         ('s1', 'u', 'vllm', 'discriminative', 'm', '{}', 'dead', now() - interval '1 minute')`,
    )
    // A webhook receives only the events after its creation. Both times come from the database, so the clock of this
    // machine may be behind.
    const look = async () => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 1_800_000 })
      return db.transaction(checkFleet).finally(() => vi.useRealTimers())
    }
    expect(await look()).toBe(true)
    expect(await look()).toBe(false)
    const sent = () =>
      db.adhoc(
        `select w.name, e.kind, e.payload ->> 'monitor' as monitor from alert_delivery d
         join webhook w on w.id = d.webhook_id join alert_event e on e.id = d.event_id order by 1, 2, 3`,
      )
    const opened = [
      { name: 'all', kind: 'opened', monitor: 'no_healthy_server' },
      { name: 'all', kind: 'opened', monitor: 'server_unavailable' },
      { name: 'bad alone', kind: 'opened', monitor: 'no_healthy_server' },
    ]
    expect(await sent()).toEqual(opened)
    // The server responds again but fails its self-test, so its incident stays open.
    for (const state of ['unreachable', 'dead', 'probing', 'quarantined']) {
      await db.adhoc('update server set state = $1, state_since = now()', [state])
      expect(await look(), state).toBe(false)
    }
    await db.adhoc("update server set state = 'ready'")
    expect(await look()).toBe(true)
    const all = (await sent()) as { kind: string }[]
    expect(all.filter(({ kind }) => kind === 'resolved')).toHaveLength(3)
    await db.adhoc("update server set state = 'dead', removed_at = now()")
    expect(await look()).toBe(false)
    expect(await db.adhoc('select 1 from monitor_incident where closed_at is null')).toEqual([])
  })
})
