import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { createLogger } from '../log.ts'
import { createTrpcPlane, type TrpcPlaneOptions } from './trpc-plane.ts'

it('answers with status 500 if a call fails after its body has been read completely', async () => {
  const plane = createTrpcPlane({
    modules: { manager: { score: () => Promise.reject(new RangeError('stack')) } },
    access: { admit: () => ({ ended: new AbortController().signal }) },
    log: createLogger('silent', 'test'),
  } as unknown as TrpcPlaneOptions)
  const server = createServer((req, res) => void plane(req, res, randomUUID())).listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sample = { uid: 'q', dataSource: 'math', prompt: '', response: '' }
  const answer = await fetch(`http://localhost:${port}/api/trpc/samples.score`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ run: 'r', step: 1, sample }),
  })
  expect(answer.status).toBe(500)
  expect(await answer.json()).toMatchObject({ error: { data: { reason: 'internal' } } })
  server.close()
})

it('logs no error when the caller leaves, and one when a call fails', async () => {
  const logged: (string | null)[] = []
  const waiting = (signal: AbortSignal) =>
    new Promise((_, reject) => {
      begun.resolve()
      signal.addEventListener('abort', () => reject(signal.reason))
    })
  let begun = Promise.withResolvers<void>()
  const holder = { name: 'a', role: 'admin', scope: null, ended: new AbortController().signal }
  const plane = createTrpcPlane({
    modules: {
      manager: { score: (_: object, signal: AbortSignal) => waiting(signal) },
      planner: { plan: (_: object, signal: AbortSignal) => waiting(signal) },
      overview: { get: () => Promise.reject(new RangeError('stack')) },
    },
    access: {
      admit: () => holder,
      actorOf: () => holder,
      requiresKey: true,
      addressOf: () => 'http://localhost',
    },
    log: { error: ({ path }: { path: string | null }) => logged.push(path) },
  } as unknown as TrpcPlaneOptions)
  const answered: Promise<void>[] = []
  const server = createServer((req, res) => {
    answered.push(once(res, 'close').then(() => {}))
    void plane(req, res, randomUUID())
  }).listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const call = (path: string, body: object, signal?: AbortSignal) =>
    fetch(`http://localhost:${port}/api/trpc/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    })
  const sample = { uid: 'q', dataSource: 'math', prompt: '', response: '' }
  const phases = { rolloutMs: 1, logProbMs: 1, updateMs: 1 }
  for (const [path, input] of [
    ['samples.score', { run: 'r', step: 1, sample }],
    ['planner.plan', { source: { kind: 'batch', batchId: 'b1' }, phases }],
  ] as const) {
    begun = Promise.withResolvers()
    const leave = new AbortController()
    const left = call(path, input, leave.signal).catch(() => 'left')
    await begun.promise
    leave.abort()
    expect(await left).toBe('left')
    await answered.at(-1)
  }
  expect((await call('overview.get', {})).status).toBe(500)
  expect(logged).toEqual(['overview.get'])
  server.close()
})

it.each([
  {
    path: 'samples.score',
    input: {
      ...{ run: 'r', step: 1 },
      sample: { uid: 'q', dataSource: 'math', prompt: '', response: '' },
    },
  },
  {
    path: 'planner.plan',
    input: {
      source: { kind: 'batch', batchId: 'b1' },
      phases: { rolloutMs: 1, logProbMs: 1, updateMs: 1 },
    },
  },
])('$path does nothing for a caller that left while its scope was checked', async (call) => {
  const work = vi.fn(() => Promise.reject(new RangeError('stack')))
  const asked = Promise.withResolvers<void>()
  const checked = Promise.withResolvers<void>()
  const check = () => {
    asked.resolve()
    return checked.promise
  }
  const scope = { access: 'all', runPrefix: 'r' }
  const holder = { name: 'a', role: 'admin', scope, ended: new AbortController().signal }
  const plane = createTrpcPlane({
    modules: { manager: { score: work }, planner: { plan: work }, scopes: { check } },
    access: {
      admit: () => holder,
      actorOf: () => holder,
      requiresKey: true,
      addressOf: () => 'http://localhost',
    },
    log: { error: work },
  } as unknown as TrpcPlaneOptions)
  const closed = Promise.withResolvers<void>()
  const server = createServer((req, res) => {
    res.once('close', closed.resolve)
    void plane(req, res, randomUUID())
  }).listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const leave = new AbortController()
  const left = fetch(`http://localhost:${port}/api/trpc/${call.path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(call.input),
    signal: leave.signal,
  }).catch(() => 'left')
  await asked.promise
  leave.abort()
  expect(await left).toBe('left')
  await closed.promise
  checked.resolve()
  await turn()
  expect(work).not.toHaveBeenCalled()
  server.close()
})
