import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { EgressPolicy, guardedConnector, setEgressPolicy } from './egress.ts'
import { checkServerUrl } from './server-url.ts'

const ALL = ['loopback', 'private', 'public']
afterEach(() => setEgressPolicy(ALL))

describe('the default policy', () => {
  const policy = new EgressPolicy(ALL)
  it.each(['127.0.0.1', '0.0.0.0', '::1', '10.1.2.3', '172.16.0.1', '192.168.0.1', '8.8.8.8'])(
    'allows %s',
    (address) => expect(policy.refusal(address)).toBeNull(),
  )
  it.each(['fe80::1%eth0', '169.254.169.254', '::ffff:a9fe:a9fe', '224.0.0.1', '255.255.255.255'])(
    'refuses %s',
    (address) => expect(policy.refusal(address)).toMatch(/link-local/),
  )
})

describe('a policy', () => {
  it.each<[allow: string, allowed: string[], refused: string[]]>([
    ['public', ['8.8.8.8', '2606:4700::1'], ['127.0.0.1', '10.0.0.1', '100.64.0.1', 'fd12::1']],
    ['private', ['10.0.0.1', 'fd12::1'], ['8.8.8.8', '::1', '0.0.0.0', '2606:4700::1']],
    ['loopback', ['127.9.9.9', '::ffff:127.0.0.1'], ['10.0.0.1', '8.8.8.8']],
    // IPv6 addresses that embed IPv4 addresses.
    ['public', [], ['::ffff:10.0.0.1', '64:ff9b::7f00:1', '2002:a00:1::', '::10.0.0.1']],
    ['10.1.0.0/16,::1', ['10.1.255.1', '::1'], ['10.2.0.1', '127.0.0.1', '8.8.8.8']],
    ['0.0.0.0/0,::/0', ['8.8.8.8', '10.0.0.1'], ['169.254.169.254', 'fe80::1']],
  ])('of %s', (allow, allowed, refused) => {
    const policy = new EgressPolicy(allow.split(','))
    for (const address of allowed) expect(policy.refusal(address), address).toBeNull()
    for (const address of refused) expect(policy.refusal(address), address).not.toBeNull()
  })

  it('of names allows their public and private addresses, but no loopback address', () => {
    const policy = new EgressPolicy(['rm.example.org', '*.models.example.org'])
    expect(policy.refusal('10.0.0.1', 'RM.example.org.')).toBeNull()
    expect(policy.refusal('8.8.8.8', 'a.models.example.org')).toBeNull()
    expect(policy.refusal('127.0.0.1', 'rm.example.org')).toMatch(/loopback/)
    expect(policy.refusal('169.254.169.254', 'rm.example.org')).toMatch(/link-local/)
    for (const host of ['models.example.org', 'evilmodels.example.org', 'example.org', undefined]) {
      expect(policy.refusal('8.8.8.8', host), host).toMatch(/REWARDOPS_EGRESS_ALLOW/)
    }
  })

  it.each(['10.0.0.0/33', '1.2.3', 'a b', 'http://rm', '*', '*.', ''])(
    'refuses the entry "%s"',
    (entry) => expect(() => new EgressPolicy([entry])).toThrow(`"${entry}" is neither`),
  )
})

it('the policy is checked for the URL of a server and at each connection', async () => {
  let connections = 0
  const server = createServer((socket) => {
    connections++
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const connected = (hostname: string) =>
    new Promise<NodeJS.ErrnoException | null>((resolve) =>
      guardedConnector(1_000)(
        { hostname, host: hostname, protocol: 'http:', port: String(port) },
        (error, socket) => {
          socket?.destroy()
          resolve(error)
        },
      ),
    )
  try {
    expect(await connected('127.0.0.1')).toBeNull()
    expect(await connected('localhost')).toBeNull()
    expect(checkServerUrl('http://127.1:8000')).toMatchObject({ ok: true })
    setEgressPolicy(['public'])
    expect(checkServerUrl('http://127.1:8000')).toMatchObject({
      ...{ ok: false, reason: 'forbidden_url', cause: 'forbidden_address' },
      message: expect.stringContaining('127.0.0.1 is a loopback address'),
    })
    const before = connections
    for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', 'localhost']) {
      expect(await connected(host), host).toMatchObject({ code: 'ERR_FORBIDDEN_ADDRESS' })
    }
    // getaddrinfo resolves a hexadecimal address without network access.
    expect(await connected('0xa9fea9fe')).toMatchObject({ code: 'ERR_FORBIDDEN_ADDRESS' })
    expect(connections).toBe(before)
  } finally {
    server.close()
  }
})
