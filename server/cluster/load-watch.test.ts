import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { EngineLoad, RouterServer } from '../router/router-types.ts'
import { LoadWatch } from './load-watch.ts'
import { RecordingRouter } from './testing/recording-router.ts'

const SERVER: RouterServer = {
  id: 1,
  name: 'rm',
  url: 'http://127.0.0.1:9',
  engine: 'vllm',
  model: 'rm',
  version: null,
  weight: 1,
  maxInFlight: null,
  apiKey: null,
  state: 'ready',
}

let router: RecordingRouter
let servers: RouterServer[]
let watch: LoadWatch
let reads: number[]
let answer: EngineLoad | null | Error

beforeEach(() => {
  vi.useFakeTimers()
  router = new RecordingRouter()
  servers = [SERVER]
  reads = []
  answer = { running: 3, waiting: 1 }
  watch = new LoadWatch({
    router,
    servers: () => servers,
    async read(server) {
      reads.push(server.id)
      if (answer instanceof Error) throw answer
      return answer
    },
  })
})
afterEach(() => {
  watch.close()
  vi.useRealTimers()
})

it('reads the load of servers with work every two seconds and passes it to the router', async () => {
  servers = [SERVER, { ...SERVER, id: 2 }, { ...SERVER, id: 3 }, { ...SERVER, id: 4 }]
  router.set(1, { inFlight: 1 })
  router.set(2, { waiting: 5 })
  router.set(3, {})
  router.set(4, { inFlight: 1, state: 'draining' })
  await vi.advanceTimersByTimeAsync(20_000)
  const of = (id: number) => reads.filter((each) => each === id).length
  expect([of(3), of(4)]).toEqual([0, 0])
  for (const id of [1, 2]) {
    expect(of(id)).toBeGreaterThanOrEqual(7)
    expect(of(id)).toBeLessThanOrEqual(13)
  }
  expect(router.loads.at(-1)?.[1]).toEqual({ running: 3, waiting: 1 })
  expect(router.loads).toHaveLength(reads.length)
})

it('withdraws a load older than ten seconds, once', async () => {
  router.set(1, { inFlight: 1 })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(router.loads).toEqual([[1, { running: 3, waiting: 1 }]])
  router.set(1, { inFlight: 0 })
  await vi.advanceTimersByTimeAsync(8_000)
  expect(router.loads).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(router.loads.slice(1)).toEqual([[1, null]])
})

it.each([
  ['negative', { running: -1, waiting: 0 }],
  ['not a number', { running: Number.NaN, waiting: 0 }],
  ['implausible', { running: 1, waiting: 1e9 }],
  ['infinite', { running: Number.POSITIVE_INFINITY, waiting: 0 }],
  ['missing', null],
  ['an error', new Error('404')],
])('passes no load to the router that is %s', async (_, load) => {
  answer = load
  router.set(1, { inFlight: 1 })
  await vi.advanceTimersByTimeAsync(30_000)
  expect(reads.length).toBeGreaterThan(2)
  expect(router.loads).toEqual([])
})

it('reads a server without reports less and less often, and at the normal rate once it reports', async () => {
  answer = null
  router.set(1, { inFlight: 1 })
  await vi.advanceTimersByTimeAsync(600_000)
  const before = reads.length
  expect(before).toBeLessThan(25)
  answer = { running: 1, waiting: 0 }
  await vi.advanceTimersByTimeAsync(100_000)
  expect(reads.length - before).toBeGreaterThan(10)
})

it('sends no second read while one is pending, and ignores the answer of a removed server', async () => {
  let answerNow: (load: EngineLoad) => void = () => {}
  watch.close()
  watch = new LoadWatch({
    router,
    servers: () => servers,
    read(server) {
      reads.push(server.id)
      return new Promise((resolve) => {
        answerNow = resolve
      })
    },
  })
  router.set(1, { inFlight: 1 })
  await vi.advanceTimersByTimeAsync(30_000)
  expect(reads).toEqual([1])
  servers = []
  await vi.advanceTimersByTimeAsync(1_000)
  answerNow({ running: 9, waiting: 9 })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(router.loads).toEqual([])
})
