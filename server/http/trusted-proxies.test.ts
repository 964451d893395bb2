import { describe, expect, it } from 'vitest'
import { type SentRequest, TrustedProxies } from './trusted-proxies.ts'

const request = (
  remoteAddress: string,
  headers: Record<string, string> = {},
  encrypted = false,
): SentRequest =>
  ({ headers, socket: { remoteAddress, ...(encrypted ? { encrypted } : {}) } }) as never

const proxies = new TrustedProxies(['10.0.0.0/8', '::1', '2001:db8::/32'])

describe('the client’s address', () => {
  it.each<[what: string, req: SentRequest, address: string]>([
    ['a direct connection', request('192.0.2.1'), '192.0.2.1'],
    ['an IPv4 address on an IPv6 socket', request('::ffff:192.0.2.1'), '192.0.2.1'],
    [
      'a header of another host',
      request('192.0.2.1', { 'x-forwarded-for': '203.0.113.9' }),
      '192.0.2.1',
    ],
    [
      'a proxy, with addresses that the client made up',
      request('10.1.2.3', { 'x-forwarded-for': '127.0.0.1, 203.0.113.9' }),
      '203.0.113.9',
    ],
    [
      'two proxies',
      request('::ffff:10.1.2.3', { 'x-forwarded-for': '198.51.100.7, 203.0.113.9:4711, 10.9.9.9' }),
      '203.0.113.9',
    ],
    ['a proxy without a header', request('10.1.2.3'), '10.1.2.3'],
    [
      'an unknown hop',
      request('10.1.2.3', { 'x-forwarded-for': '203.0.113.9, unknown' }),
      '10.1.2.3',
    ],
    [
      'Forwarded',
      request('::1', { forwarded: 'for=192.0.2.60;proto=http, For="[2001:db9::17]:4711"' }),
      '2001:db9::17',
    ],
    [
      'both headers',
      request('::1', { forwarded: 'for=192.0.2.60', 'x-forwarded-for': '203.0.113.9' }),
      '203.0.113.9',
    ],
    ['a closed connection', request(undefined as never), ''],
  ])('of %s', (_, req, address) => expect(proxies.clientAddress(req)).toBe(address))

  it('is that of the connection without configured proxies', () => {
    const req = request('127.0.0.1', { 'x-forwarded-for': '203.0.113.9' })
    expect(new TrustedProxies([]).clientAddress(req)).toBe('127.0.0.1')
  })
})

it('takes scheme and host from configured proxies alone', () => {
  const headers = { host: 'inner', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'outer' }
  expect(proxies.isHttps(request('10.1.2.3', headers))).toBe(true)
  expect(proxies.host(request('10.1.2.3', headers))).toBe('outer')
  expect(proxies.isHttps(request('192.0.2.1', headers))).toBe(false)
  expect(proxies.host(request('192.0.2.1', headers))).toBe('inner')
  const forwarded = { host: 'inner', forwarded: 'for=192.0.2.60;proto=https;host="outer:8443"' }
  expect(proxies.isHttps(request('10.1.2.3', forwarded))).toBe(true)
  expect(proxies.host(request('10.1.2.3', forwarded))).toBe('outer:8443')
  expect(proxies.isHttps(request('192.0.2.1', {}, true))).toBe(true)
})

it('refuses entries that are not networks', () => {
  for (const entry of ['10.0.0.0/33', 'example.org', '::1/129', '10.0.0.0/8/8', '']) {
    expect(() => new TrustedProxies([entry]), entry).toThrow(`"${entry}" is neither`)
  }
})
