import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { endianness } from 'node:os'
import { afterEach, describe, expect, test } from 'vitest'
import { HAS_PEER_OWNERS, PeerOwners, uidIn } from './peer-owner.ts'

const HEAD =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode'
const line = (local: string, remote: string, uid: number, inode: number) =>
  `   1: ${local} ${remote} 01 00000000:00000000 00:00000000 00000000 ${String(uid).padStart(5)}        0 ${inode} 1 0000000000000000 20 4 30 10 -1`
const table = (...lines: string[]) => [HEAD, ...lines, ''].join('\n')

const OURS = { localAddress: '127.0.0.1', localPort: 3000 }
const peer = (remoteAddress: string, remotePort: number) => ({ ...OURS, remoteAddress, remotePort })

describe.runIf(endianness() === 'LE')('the tables of sockets', () => {
  const tcp = table(
    line('0100007F:0BB8', '00000000:0000', 1000, 10),
    line('0100007F:0BB8', '0100007F:C001', 1000, 11),
    line('0100007F:C001', '0100007F:0BB8', 33, 12),
    line('0100007F:C002', '0100007F:0BB8', 0, 0),
  )
  const tcp6 = table(
    line(
      '0000000000000000FFFF00000100007F:C003',
      '0000000000000000FFFF00000100007F:0BB8',
      1001,
      13,
    ),
    line(
      '00000000000000000000000001000000:C004',
      '00000000000000000000000001000000:0BB8',
      1002,
      14,
    ),
  )

  test('give the user of the other end, not of this one', () => {
    expect(uidIn(tcp, peer('127.0.0.1', 0xc001))).toBe(33)
    expect(uidIn(tcp, peer('::ffff:127.0.0.1', 0xc001))).toBe(33)
  })

  test('list an IPv4 connection of an IPv6 socket in the second table', async () => {
    expect(uidIn(tcp6, peer('127.0.0.1', 0xc003))).toBe(1001)
    const six = { localAddress: '::1', localPort: 3000, remoteAddress: '::1', remotePort: 0xc004 }
    expect(uidIn(tcp6, six)).toBe(1002)
    const read = async (file: string) => (file.endsWith('6') ? tcp6 : tcp)
    expect(await new PeerOwners(read).of(peer('127.0.0.1', 0xc003))).toEqual({
      known: true,
      uid: 1001,
    })
  })

  test('list a closed socket under user 0, which counts as no owner', () => {
    expect(uidIn(tcp, peer('127.0.0.1', 0xc002))).toBe(null)
    expect(uidIn(tcp, peer('127.0.0.1', 0xc009))).toBe(null)
  })
})

describe('the owner of a connection', () => {
  const open: { destroy(): void }[] = []
  afterEach(() => {
    for (const one of open.splice(0)) one.destroy()
  })

  async function pair(host: string): Promise<[Socket, Socket]> {
    const server = createServer().listen(0, host)
    await once(server, 'listening')
    const theirs = connect((server.address() as AddressInfo).port, host)
    const [[ours]] = (await Promise.all([once(server, 'connection'), once(theirs, 'connect')])) as [
      [Socket],
      unknown,
    ]
    open.push(ours, theirs, { destroy: () => server.close() })
    return [ours, theirs]
  }

  test.runIf(HAS_PEER_OWNERS).each(['127.0.0.1', '::1'])(
    'over %s is the user of this process',
    async (host) => {
      const owners = new PeerOwners()
      const pairs = await Promise.all(Array.from({ length: 50 }, () => pair(host)))
      const found = await Promise.all(pairs.map(([ours]) => owners.of(ours)))
      expect(new Set(found.map((owner) => JSON.stringify(owner)))).toEqual(
        new Set([JSON.stringify({ known: true, uid: process.getuid?.() })]),
      )
    },
  )

  test.runIf(HAS_PEER_OWNERS)('is unknown after the connection was closed', async () => {
    const [ours, theirs] = await pair('127.0.0.1')
    theirs.destroy()
    await once(ours.resume(), 'end')
    expect(await new PeerOwners().of(ours)).toEqual({ known: false, why: 'gone' })
  })

  test('is unknown when the tables cannot be read', async () => {
    const [ours] = await pair('127.0.0.1')
    const owners = new PeerOwners(() => Promise.reject(new Error('no such file')))
    expect(await owners.of(ours)).toEqual({ known: false, why: 'unreadable' })
  })

  test('is looked up for many connections with few reads', async () => {
    let readings = 0
    const owners = new PeerOwners(async () => {
      readings++
      return table(line('0100007F:C001', '0100007F:0BB8', 33, 12))
    })
    const found = await Promise.all(
      Array.from({ length: 1_000 }, () => owners.of(peer('127.0.0.1', 0xc001))),
    )
    expect(found.every((owner) => owner.known && owner.uid === 33)).toBe(true)
    expect(readings).toBe(1)
  })
})
