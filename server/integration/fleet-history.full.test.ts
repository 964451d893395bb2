import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { CountsDto, FleetHistoryDto } from '../contract/fleet-history.ts'
import { LATENCY_BUCKET_RATIO } from '../router/latency-histogram.ts'

/** Time limit until a chart shows a change. */
const SHOWN_MS = 60_000
const LATENCY_MS = 40

let service: Service
let rm: SimulatedServers
let isLoading = true
let load: Promise<void> | undefined

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '2' } }),
    startSimulatedServers(['--servers', '3', '--latency', `constant:${LATENCY_MS}`]),
  ])
  for (const [i, url] of rm.urls.entries()) {
    await service.api.servers.register.mutate({ name: `rm-${i}`, url, maxInFlight: 8 })
  }
}, 120_000)

afterAll(async () => {
  isLoading = false
  await load
  await service?.stop().finally(() => service.destroy())
  await rm?.stop()
})

async function keepLoaded(): Promise<void> {
  for (let step = 1; isLoading; step++) {
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'fleet', step, samples: rollouts(256, 8, `s${step}`) },
      reward: { model: rm.model, maxAttempts: 5 },
    })
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  }
}

const history = (seconds = 900): Promise<FleetHistoryDto> =>
  service.api.fleet.history.query({ seconds })
const shows = (what: string, look: (now: FleetHistoryDto) => boolean) =>
  waitFor(what, async () => look(await history()), SHOWN_MS)

const seriesOf = ({ series }: { series: FleetHistoryDto['requests']['series'] }, name: string) =>
  series.find((one) => one.name === name)?.values ?? []
const sum = (values: readonly number[]) => values.reduce((total, n) => total + n, 0)
const eventsOf = ({ events }: FleetHistoryDto, name: string) =>
  events.filter((event) => event.name === name).map(({ kind, to }) => `${kind} ${to}`)

const slotOf = ({ from, intervalSeconds }: FleetHistoryDto, atMs: number) =>
  Math.floor((atMs - Date.parse(from)) / (1_000 * intervalSeconds))

// This test runs first, because a worker that is killed loses the durations of its last seconds.
it('quantiles are within one bucket of those of the stored samples', async () => {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'quantiles', step: 1, samples: rollouts(512, 8, 'quantiles') },
    reward: { model: rm.model },
  })
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const queued = await waitFor('the durations', async () => {
    const { latency } = await history(2_592_000)
    const found = latency.queue.findLast(({ n }) => n > 0)
    return found?.n === 512 && found
  })
  const [exact] = await service.sql<{ p50: number; p95: number; p99: number }>(
    `select percentile_disc(0.5) within group (order by queue_ms) as p50,
       percentile_disc(0.95) within group (order by queue_ms) as p95,
       percentile_disc(0.99) within group (order by queue_ms) as p99
     from sample where batch_id = $1`,
    [Number(batchId.slice(1))],
  )
  for (const q of ['p50', 'p95', 'p99'] as const) {
    const ratio = (queued[q] ?? 0) / (exact?.[q] ?? 1)
    expect(Math.abs(Math.log(ratio))).toBeLessThan(Math.log(LATENCY_BUCKET_RATIO))
  }
})

describe('the charts show', () => {
  beforeAll(() => {
    load = keepLoaded()
  })

  it('a server that slows down', async () => {
    await shows('requests to all servers', ({ requests }) =>
      [0, 1, 2].every((i) => sum(seriesOf(requests, `rm-${i}`)) > 100),
    )
    // A much slower server would become suspect. All its calls could then be hedged and cancelled, so none would have
    // a recorded latency.
    await rm.control({ latency: `constant:${6 * LATENCY_MS}` }, 0)
    await shows('the slow server', ({ p95Ms }) => {
      const last = (name: string) =>
        p95Ms?.series.find((one) => one.name === name)?.values.findLast((ms) => ms !== null) ?? 0
      return last('rm-0') > 3 * last('rm-1') && last('rm-1') > 0
    })
    await rm.control({ latency: `constant:${LATENCY_MS}` }, 0)
  }, 240_000)

  it('a server that dies, with the retries and its ejection', async () => {
    const diedAtMs = Date.now()
    await rm.control({ die: { afterMs: 0 } }, 1)
    await shows('retries of its requests', (now) => {
      const from = slotOf(now, diedAtMs)
      return sum(seriesOf(now.retries.byServer, 'rm-1').slice(from)) > 0
    })
    await shows('its ejection', (now) => eventsOf(now, 'rm-1').includes('ejected ejected'))
    await shows('its outage', (now) => eventsOf(now, 'rm-1').includes('state unreachable'))
    const now = await history()
    expect(sum(now.retries.byCause.fault)).toBeGreaterThan(0)
  }, 240_000)

  it('the return of the server', async () => {
    await rm.control({ revive: true }, 1)
    await waitFor('the server', async () =>
      (await service.api.servers.list.query()).some(
        ({ name, state }) => name === 'rm-1' && state === 'ready',
      ),
    )
    const backAtMs = Date.now()
    await shows('its return', (now) => eventsOf(now, 'rm-1').includes('state ready'))
    await shows('its requests', (now) => {
      const since = slotOf(now, backAtMs) + 1
      return sum(seriesOf(now.requests, 'rm-1').slice(since)) > 0
    })
  }, 240_000)

  it('a worker that is killed', async () => {
    const { workers } = await service.kill9('worker')
    const [killed] = await service.sql<{ id: number }>(
      "select id from process where pid = $1 and role = 'worker'",
      [workers[0]],
    )
    await shows('its death', (now) => eventsOf(now, `w${killed?.id}`).includes('died null'))
    await shows('its successor', ({ throughput }) => throughput.series.length === 3)
  }, 240_000)
})

describe('after all batches have ended', () => {
  beforeAll(async () => {
    isLoading = false
    await load
  }, 120_000)

  it('results equal the stored samples, also of the killed worker', async () => {
    const stored = await service.sql<{ name: string; n: number }>(
      "select 'w' || worker_id as name, count(*)::int as n from sample where status > 1 group by 1",
    )
    expect(stored).toHaveLength(3)
    for (const seconds of [900, 21_600, 604_800]) {
      // The totals are polled, because an answer is cached for 2 s.
      await expect
        .poll(async () => totals((await history(seconds)).throughput), { timeout: 20_000 })
        .toEqual(byName(stored))
    }
  })

  it('retries and hedges equal the attempts', async () => {
    const [samples] = await service.sql<{ retries: number }>(
      'select sum(attempts - 1)::int as retries from sample',
    )
    // Each call has a number, so a failed attempt was retried if the sample has a call with the next number.
    const retried = await service.sql<{ name: string; cause: string; n: number }>(
      `select s.name, a.outcome as cause, count(*)::int as n from (
         select distinct on (batch_id, idx, attempt) * from attempt
         where outcome not in ('ok', 'superseded', 'conn_race', 'recalled') and server_id is not null
         order by batch_id, idx, attempt, started_at + service_ms * interval '1 ms') a
       join server s on s.id = a.server_id
       where exists (select from attempt b where b.batch_id = a.batch_id and b.idx = a.idx and b.attempt = a.attempt + 1
                     and b.hedge_of is null and b.outcome not in ('conn_race', 'recalled'))
       group by 1, 2`,
    )
    const [hedges] = await service.sql<{ n: number }>(
      'select count(*)::int as n from attempt where hedge_of is not null',
    )
    expect(samples?.retries).toBeGreaterThan(0)
    for (const seconds of [900, 21_600, 604_800]) {
      const { retries } = await history(seconds)
      const byCause = Object.entries(retries.byCause).map(([cause, ns]) => [cause, sum(ns)])
      const causes = Map.groupBy(retried, ({ cause }) => cause)
      expect(Object.fromEntries(byCause)).toEqual({
        ...{ fault: 0, stall: 0, busy: 0, corrupt: 0, client: 0 },
        ...Object.fromEntries([...causes].map(([cause, ns]) => [cause, sum(ns.map(({ n }) => n))])),
      })
      expect(sum(Object.values(totals(retries.byServer)))).toBe(samples?.retries)
      expect(totals(retries.byServer)).toEqual(
        Object.fromEntries(
          [...Map.groupBy(retried, ({ name }) => name)].map(([name, ns]) => [
            name,
            sum(ns.map(({ n }) => n)),
          ]),
        ),
      )
      expect(sum(retries.hedges)).toBe(hedges?.n)
    }
  })
})

const totals = ({ series }: CountsDto) =>
  Object.fromEntries(series.map(({ name, values }) => [name, sum(values)]))
const byName = (rows: readonly { name: string; n: number }[]) =>
  Object.fromEntries(rows.map(({ name, n }) => [name, n]))
