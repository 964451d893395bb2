import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { LeaseHolder } from './lease-holder.ts'
import { insertServer } from './testing/servers.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')

let db: Database
let holders: LeaseHolder[] = []

beforeAll(() => {
  db = new Database(database.url, log, { max: 6, name: 'test', keyed: true })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate lease, server'))
afterEach(async () => {
  for (const holder of holders) await holder.close()
  holders = []
})

function process(holderId: number, name: string, limit: number, from: Database = db) {
  const holder = new LeaseHolder(from, holderId, log)
  holders.push(holder)
  const own = {
    holder,
    name,
    demand: 0,
    inFlight: 0,
    slots: 0,
    untilMs: 0,
    renewals: [] as number[],
    graceMs: 0,
    recalled: 0,
    want(demand: number) {
      own.demand = demand
      holder.want(name)
    },
  }
  limited(own, limit)
  return own
}

function limited(own: ReturnType<typeof process>, limit: number): void {
  own.holder.track({
    name: own.name,
    limit,
    demand: () => own.demand,
    inFlight: () => own.inFlight,
    graceMs: own.graceMs,
    recall: () => {
      own.recalled++
      own.inFlight = 0
    },
    setSlots(slots, untilMs) {
      own.slots = slots
      own.untilMs = untilMs
      own.renewals.push(slots)
    },
  })
}

it('requests slots by demand, and stops using them before other processes may use them', async () => {
  const a = process(1, 'batch:1', 8)
  a.want(5)
  await waitFor('slots', () => a.slots === 5)
  const [row] = await db.adhoc<{ left_ms: number }>(
    'select (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left_ms from lease',
  )
  expect(a.untilMs - performance.now()).toBeLessThan(row!.left_ms)
  const [first] = [a.untilMs]
  await waitFor('a renewal', () => a.untilMs > first)
  expect(a.slots).toBe(5)
})

it('allows no more calls in flight than reported while a request is pending', async () => {
  const a = process(1, 'batch:1', 8)
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  a.inFlight = 3
  a.renewals.length = 0
  await waitFor('a renewal', () => a.renewals.length >= 2)
  expect(a.renewals.slice(0, 2)).toEqual([3, 8])
})

it('dispatches nothing while paused, even if a call ends or the limit changes', async () => {
  const a = process(1, 'batch:1', 8)
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  a.inFlight = 8
  a.holder.paused = true
  expect(a.slots).toBe(0)
  a.renewals.length = 0
  a.inFlight = 3
  limited(a, 6)
  await waitFor('renewals', () => a.renewals.length >= 3)
  expect(new Set(a.renewals)).toEqual(new Set([0]))
  a.holder.paused = false
  await waitFor('slots', () => a.slots === 6)
})

it('returns the slots of a forgotten resource before it leases that resource again', async () => {
  const a = process(1, 'batch:1', 8)
  a.graceMs = 60_000
  limited(a, 8)
  const held = () => db.adhoc<{ slots: number }>('select slots from lease')
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  a.holder.forget('batch:1')
  await waitFor('no lease', async () => (await held()).length === 0)
  limited(a, 8)
  a.want(5)
  await waitFor('slots', () => a.slots === 5)
  a.holder.forget('batch:1')
  limited(a, 8)
  a.want(3)
  await waitFor('slots', () => a.slots === 3)
  expect(await held()).toEqual([{ slots: 3 }])
})

it('never exceeds the limit in total, for any demand', async () => {
  const all = [1, 2, 3, 4].map((id) => process(id, 'batch:1', 3))
  let most = 0
  const look = setInterval(() => {
    const now = performance.now()
    const held = all.map((each) => (now < each.untilMs ? each.slots : 0))
    most = Math.max(
      most,
      held.reduce((sum, n) => sum + n, 0),
    )
  }, 1)
  for (const each of all) each.want(5)
  await waitFor('slots of three processes', () => all.filter((each) => each.slots > 0).length >= 3)
  for (const each of all.slice(0, 2)) each.demand = 0
  await waitFor('slots of the processes with demand', () => all[2]!.slots + all[3]!.slots === 3)
  clearInterval(look)
  expect(most).toBe(3)
})

it('yields to later processes, although its slots are always in use', async () => {
  const a = process(1, 'batch:1', 9)
  a.want(50)
  await waitFor('all of it', () => a.slots === 9)
  // A call ends every 20 ms and is replaced immediately if there is a slot.
  a.inFlight = 9
  const send = setInterval(() => {
    a.inFlight = Math.max(a.inFlight - 1, Math.min(a.slots, 9))
  }, 20)
  try {
    const b = process(2, 'batch:1', 9)
    b.want(50)
    await waitFor('an equal part', () => b.slots === 4)
    expect(a.slots).toBe(5)
    // Both processes stay busy, and no slots move back and forth.
    b.inFlight = 4
    a.renewals.length = 0
    await waitFor('some renewals', () => a.renewals.length >= 3)
    expect(new Set(a.renewals)).toEqual(new Set([5]))
    b.demand = 1
    b.inFlight = 1
    await waitFor('the slots that the other process does not use', () => a.slots === 8)
  } finally {
    clearInterval(send)
  }
})

it('gives two processes that start together equal parts before the next renewal', async () => {
  const counted = (id: number) => {
    const own = new Database(database.url, log, { max: 1, name: `test ${id}`, keyed: true })
    const questions = vi.spyOn(own, 'rows')
    return { own, questions, process: process(id, 'batch:1', 128, own) }
  }
  const both = [counted(1), counted(2)]
  // Calls are short and replaced immediately, so each process uses all its slots.
  const send = setInterval(() => {
    for (const { process } of both) process.inFlight = Math.min(process.slots, process.demand)
  }, 1)
  try {
    // Both processes had been active before, so each keeps one slot.
    for (const { process } of both) process.want(1)
    await waitFor('a slot each', () => both.every(({ process }) => process.slots === 1))
    for (const { questions } of both) questions.mockClear()
    for (const { process } of both) process.want(4_000)
    const beganMs = performance.now()
    await waitFor('equal parts', () => both.every(({ process }) => process.slots === 64))
    const tookMs = performance.now() - beganMs
    for (const { questions } of both) expect(questions.mock.calls.length).toBeLessThanOrEqual(12)
    const renewedAtMs: number[] = []
    const { process: one } = both[0]!
    await waitFor('renewals at their usual pace', () => {
      if (renewedAtMs.at(-1) !== one.untilMs) renewedAtMs.push(one.untilMs)
      return renewedAtMs.length >= 7
    })
    for (const { process } of both) expect(process.slots).toBe(64)
    // Equal parts are reached in about a quarter of a renewal interval.
    expect(tookMs).toBeLessThan(renewedAtMs[6]! - renewedAtMs[5]!)
  } finally {
    clearInterval(send)
    for (const { own, process } of both) {
      await process.holder.close()
      await own.close()
    }
  }
})

it('requests slots for its recent peak, so that calls in bursts keep their slots', async () => {
  const questions = vi.spyOn(db, 'rows')
  const a = process(1, 'batch:1', 128)
  try {
    a.want(60)
    await waitFor('slots', () => a.slots === 60)
    const renewedAtMs: number[] = [a.untilMs]
    questions.mockClear()
    let least = a.slots
    // The demand alternates, so checks and renewals see both values.
    await waitFor('three renewals', () => {
      a.demand = a.demand === 60 ? 10 : 60
      a.inFlight = a.demand
      if (a.demand > a.slots) a.holder.want('batch:1')
      if (renewedAtMs.at(-1) !== a.untilMs) {
        renewedAtMs.push(a.untilMs)
        least = Math.min(least, a.slots)
      }
      return renewedAtMs.length === 4
    })
    expect(least).toBe(60)
    // Demand that rises while a request is pending causes one more request.
    expect(questions.mock.calls.length).toBeLessThanOrEqual(6)
    a.demand = 7
    a.inFlight = 7
    await waitFor('only the slots in use', () => a.slots === 7)
  } finally {
    questions.mockRestore()
  }
})

it('keeps at most an equal part of unused slots once another process lacks slots', async () => {
  const a = process(1, 'batch:1', 128)
  a.want(128)
  await waitFor('all of it', () => a.slots === 128)
  a.demand = 20
  a.inFlight = 20
  const b = process(2, 'batch:1', 128)
  b.want(128)
  await waitFor('an equal part at least', () => b.slots >= 64)
  await waitFor('all slots that the first does not use', () => b.slots === 108)
  expect(a.slots).toBe(20)
})

it('applies and shares a lower limit at once, not at the next renewal', async () => {
  const both = [process(1, 'batch:1', 128), process(2, 'batch:1', 128)]
  for (const each of both) each.want(64)
  await waitFor('half of it each', () => both.every((each) => each.slots === 64))
  const [a, b] = both as [(typeof both)[0], (typeof both)[0]]
  const { untilMs } = a
  for (const each of both) limited(each, 3)
  // A share whose renewal is pending is lowered by the answer to the renewal.
  await waitFor('at most the limit each', () => both.every((each) => each.slots <= 3))
  await waitFor('its renewal', () => a.untilMs > untilMs)
  await waitFor('no more than the limit', () => a.slots + b.slots <= 3)
  await waitFor('all of it', () => a.slots + b.slots === 3)
})

it('moves no slots if the limit is smaller than the number of holders', async () => {
  const a = process(1, 'batch:1', 1)
  a.want(3)
  await waitFor('the only slot', () => a.slots === 1)
  a.inFlight = 1
  const b = process(2, 'batch:1', 1)
  b.want(2)
  a.renewals.length = 0
  await waitFor('some renewals', () => a.renewals.length >= 3)
  expect({ a: a.slots, b: b.slots }).toEqual({ a: 1, b: 0 })
})

it('keeps only the slots in use of a server that is not ready, and none once its calls have ended', async () => {
  const id = await insertServer(db)
  const a = process(1, `server:${id}`, 8)
  const setState = (state: string) =>
    db.adhoc('update server set state = $2 where id = $1', [id, state])
  const drainInUse = async () => {
    await setState('ready')
    a.inFlight = 0
    a.want(8)
    await waitFor('slots', () => a.slots === 8)
    a.inFlight = 2
    await setState('draining')
  }
  await drainInUse()
  await waitFor('only the slots in use at a draining server', async () => {
    // On a busy machine a renewal may take over 2 s. The lease then ends, and a draining server grants no new one.
    if (a.slots === 0) await drainInUse()
    const leases = await db.adhoc('select slots from lease')
    return leases.length === 1 && (leases[0] as { slots: number }).slots === 2 && a.slots === 2
  })
  a.inFlight = 0
  await waitFor('no lease', async () => {
    return a.slots === 0 && (await db.adhoc('select 1 from lease where slots > 0')).length === 0
  })
  await setState('ready')
  await waitFor('slots again', () => a.slots === 8)
})

it('stops using its slots when it cannot renew them', async () => {
  const own = new Database(database.url, log, { max: 1, name: 'test' })
  const a = process(1, 'batch:1', 8, own)
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  await own.close()
  await waitFor('the end of its lease', () => a.slots === 0)
  // `a` stops before another process can get its slots.
  const b = process(2, 'batch:1', 8)
  b.want(8)
  await waitFor('the other’s', () => b.slots === 8)
  expect(a.slots).toBe(0)
})

it('keeps its slots from other processes until it has cancelled its calls', async () => {
  const own = new Database(database.url, log, { max: 1, name: 'test' })
  const a = process(1, 'server:1', 8, own)
  a.graceMs = 1_000
  limited(a, 8)
  await insertServer(db)
  await db.adhoc('update server set id = 1')
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  a.inFlight = 8
  await own.close()
  await waitFor('the end of its lease', () => a.slots === 0)
  const b = process(2, 'server:1', 8)
  b.want(8)
  await waitFor('the other’s', () => {
    // The calls of the first process count against the limit until they are cancelled.
    expect(a.inFlight + b.slots).toBeLessThanOrEqual(8)
    return b.slots === 8
  })
  expect(a.recalled).toBe(1)
})

it('releases removed limits, and everything when it closes', async () => {
  const a = process(1, 'batch:1', 8)
  a.want(8)
  await waitFor('slots', () => a.slots === 8)
  await a.holder.close()
  expect(await db.adhoc('select 1 from lease')).toEqual([])
  const b = process(2, 'batch:1', 8)
  b.want(4)
  await waitFor('slots', () => b.slots === 4)
  b.holder.forget('batch:1')
  expect(b.slots).toBe(0)
})
