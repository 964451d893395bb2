import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { guardedFetch } from './guarded-fetch.ts'
import { checkServerUrl, setEgressPolicy } from './server-admission.ts'

// The IP address that every name resolves to. A test changes it, as a DNS server may.
const resolved = vi.hoisted(() => ({ address: '127.0.0.1' }))
vi.mock('node:dns', () => ({
  lookup: (_name: string, _options: object, callback: (e: null, found: object[]) => void) =>
    callback(null, [{ address: resolved.address, family: 4 }]),
}))

const server = createServer((request, response) => {
  request.resume().on('end', () => response.end(`${request.method} ${request.headers.host}`))
})
let port: number
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

test('fetches from a name that resolves to an allowed address', async () => {
  const response = await guardedFetch(`http://sandbox.test:${port}/run`, {
    method: 'POST',
    body: '{}',
  })
  expect(await response.text()).toBe(`POST sandbox.test:${port}`)
})

test('refuses a name that was rebound to an address the policy does not allow', async () => {
  setEgressPolicy(['private'])
  try {
    // The URL check does not resolve the name and accepts it. The connection is refused, because the name resolves to
    // loopback.
    expect(checkServerUrl(`http://rebound.test:${port}/run`).ok).toBe(true)
    const refused = guardedFetch(`http://rebound.test:${port}/run`)
    await expect(refused).rejects.toMatchObject({ cause: { code: 'ERR_FORBIDDEN_ADDRESS' } })
    resolved.address = '10.0.0.1'
    await expect(
      guardedFetch(`http://rebound.test:${port}/run`, { signal: AbortSignal.timeout(1) }),
    ).rejects.not.toMatchObject({ cause: { code: 'ERR_FORBIDDEN_ADDRESS' } })
  } finally {
    setEgressPolicy(['loopback', 'private', 'public'])
  }
})

test('refuses a name that resolves to a metadata service', async () => {
  resolved.address = '169.254.169.254'
  const refused = guardedFetch(`http://other.test:${port}/run`, { method: 'POST', body: '{}' })
  await expect(refused).rejects.toMatchObject({ cause: { code: 'ERR_FORBIDDEN_ADDRESS' } })
})

test('rejects when its signal is aborted', async () => {
  const abort = new AbortController()
  abort.abort(new Error('on purpose'))
  await expect(guardedFetch(`http://127.0.0.1:${port}/`, { signal: abort.signal })).rejects.toThrow(
    'on purpose',
  )
})
