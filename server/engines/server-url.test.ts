import { describe, expect, test } from 'vitest'
import { isForbiddenAddress, safeLookup } from './link-local.ts'
import { checkServerUrl } from './server-url.ts'

describe('checkServerUrl', () => {
  test.each([
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000', ''],
    ['http://localhost:8000/', 'http://localhost:8000', ''],
    ['http://10.0.0.7:30000/rm/', 'http://10.0.0.7:30000/rm', '/rm'],
    ['https://rm.example.com/v1', 'https://rm.example.com/v1', '/v1'],
    ['http://[::1]:8000', 'http://[::1]:8000', ''],
    ['http://192.168.1.2', 'http://192.168.1.2', ''],
    ['HTTP://RM.Example.com:80/', 'http://rm.example.com', ''],
  ])('accepts %s', (text, url, basePath) => {
    expect(checkServerUrl(text)).toMatchObject({ ok: true, url, basePath })
  })

  test.each([
    ['', 'malformed'],
    ['rm.example.com', 'malformed'],
    ['localhost:8000', 'scheme'],
    ['http://', 'malformed'],
    ['http://[fe80::1%25eth0]/', 'malformed'],
    ['http://rm/?token=x', 'malformed'],
    ['http://rm/#x', 'malformed'],
    ['file:///etc/passwd', 'scheme'],
    ['ftp://rm/', 'scheme'],
    ['gopher://rm/', 'scheme'],
    ['unix:///run/rm.sock', 'scheme'],
    ['data:text/plain,1', 'scheme'],
    ['javascript:1', 'scheme'],
    ['http://user:secret@rm/', 'credentials'],
    ['http://user@rm/', 'credentials'],
    ['http://169.254.169.254/', 'link_local'],
    ['http://169.254.0.1:8000/', 'link_local'],
    ['http://169.254.169.254./', 'link_local'],
    ['http://2852039166/', 'link_local'],
    ['http://0xa9fea9fe/', 'link_local'],
    ['http://0251.0376.0251.0376/', 'link_local'],
    ['http://0xa9.254.43518/', 'link_local'],
    ['http://169.254.43518/', 'link_local'],
    ['http://[::ffff:169.254.169.254]/', 'link_local'],
    ['http://[::ffff:a9fe:a9fe]/', 'link_local'],
    ['http://[64:ff9b::169.254.169.254]/', 'link_local'],
    ['http://[2002:a9fe:a9fe::]/', 'link_local'],
    ['http://[fe80::1]/', 'link_local'],
    ['http://[febf::1]:8000/', 'link_local'],
    ['http://[fd00:ec2::254]/', 'link_local'],
    ['http://168.63.129.16/', 'link_local'],
    ['http://100.100.100.200/', 'link_local'],
    ['http://metadata.google.internal/', 'link_local'],
    ['http://METADATA.google.internal./', 'link_local'],
    ['http://metadata/', 'link_local'],
    ['http://１６９.254.169.254/', 'link_local'],
  ])('refuses %s (%s)', (text, cause) => {
    expect(checkServerUrl(text)).toMatchObject({ ok: false, reason: 'forbidden_url', cause })
  })
})

test('only link-local and metadata addresses are forbidden', () => {
  for (const address of ['127.0.0.1', '::1', '10.1.2.3', '172.16.0.1', '192.168.0.1', '8.8.8.8']) {
    expect(isForbiddenAddress(address)).toBe(false)
  }
  expect(isForbiddenAddress('fe80::1%eth0')).toBe(true)
})

test('safeLookup resolves loopback in both forms', async () => {
  const all = await new Promise((resolve) => {
    safeLookup('localhost', { all: true }, (_error, addresses) => resolve(addresses))
  })
  expect(all).toContainEqual(expect.objectContaining({ address: expect.any(String) }))
  const one = await new Promise((resolve) => {
    safeLookup('127.0.0.1', {}, (_error, address, family) => resolve([address, family]))
  })
  expect(one).toEqual(['127.0.0.1', 4])
})

test('safeLookup refuses a name that resolves to a link-local address', async () => {
  // getaddrinfo resolves a hexadecimal address without network access.
  const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
    safeLookup('0xa9fea9fe', {}, (failed) => resolve(failed))
  })
  expect(error?.code).toBe('ERR_FORBIDDEN_ADDRESS')
})
