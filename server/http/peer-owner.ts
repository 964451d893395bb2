import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { endianness } from 'node:os'
import { SharedRead } from '../shared-read.ts'

/**
 * Tables of all TCP sockets in the network namespace. IPv6 sockets connected to 127.0.0.1 are in the second table. It is
 * read only for connections that are not in the first, because Linux walks its hash table of all sockets in each read.
 * That takes 5 ms on a machine with 24 GiB of memory.
 */
const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
/**
 * Number of reads before an entry counts as missing. A read is not a snapshot, so it may miss an entry that moves
 * within the table during the read.
 */
const LOOKS = 3

/** The owner of the other end of a connection from this machine. */
export type PeerOwner =
  | { known: true; uid: number }
  /**
   * `gone`: the connection is closed or comes from another machine · `unreadable`: the system does not report owners.
   */
  | { known: false; why: 'gone' | 'unreadable' }

interface Connection {
  localAddress: string
  localPort: number
  remoteAddress: string
  remotePort: number
}

export const HAS_PEER_OWNERS = process.platform === 'linux'

/** Finds the owners of the other ends of connections. Connections that arrive during a read share the next read. */
export class PeerOwners {
  readonly #tables: SharedRead<string | null>[]

  constructor(read: (file: string) => Promise<string> = (file) => readFile(file, 'latin1')) {
    this.#tables = TABLES.map((file) => new SharedRead(() => read(file).catch(() => null)))
  }

  /** Finds the owner of the other end of a connection. Never rejects. */
  async of(socket: Pick<Socket, keyof Connection>): Promise<PeerOwner> {
    // A closed socket has no addresses.
    const { localAddress, localPort, remoteAddress, remotePort } = socket
    if (localAddress === undefined || localPort === undefined) return { known: false, why: 'gone' }
    if (remoteAddress === undefined || remotePort === undefined) {
      return { known: false, why: 'gone' }
    }
    let why: 'gone' | 'unreadable' = 'unreadable'
    for (let look = 0; look < LOOKS; look++) {
      for (const table of this.#tables) {
        const text = await table.run()
        if (text === null) continue
        why = 'gone'
        const uid = uidIn(text, { localAddress, localPort, remoteAddress, remotePort })
        if (uid !== null) return { known: true, uid }
      }
    }
    return { known: false, why }
  }
}

/**
 * Returns the user who owns the other end of a connection, or null if it is not in the table or no longer has an
 * owner. A closed socket with data left to send is listed under user 0 without an inode.
 */
export function uidIn(table: string, connection: Connection): number | null {
  const { localAddress, localPort, remoteAddress, remotePort } = connection
  for (const [ours, theirs] of addressForms(localAddress, remoteAddress)) {
    const place = ` ${theirs}:${hexOf(remotePort, 4)} ${ours}:${hexOf(localPort, 4)} `
    const at = table.indexOf(place)
    if (at < 0) continue
    const end = table.indexOf('\n', at)
    const rest = table.slice(at + place.length, end < 0 ? undefined : end)
    // Fields: state, queues, timer, retransmissions, user, timeout, inode.
    const fields = rest.trim().split(/\s+/)
    const [uid, inode] = [Number(fields[4]), Number(fields[6])]
    if (Number.isInteger(uid) && Number.isInteger(inode) && inode > 0) return uid
  }
  return null
}

function addressForms(a: string, b: string): [string, string][] {
  const [inA, inB] = [withoutPrefix(a), withoutPrefix(b)]
  if (inA.includes(':') || inB.includes(':')) return [[hexOfIpv6(inA), hexOfIpv6(inB)]]
  const mapped = (address: string) => `0000000000000000${wordOf(0xffff)}${hexOfIpv4(address)}`
  return [
    [hexOfIpv4(inA), hexOfIpv4(inB)],
    [mapped(inA), mapped(inB)],
  ]
}

const withoutPrefix = (address: string) => address.replace(/^::ffff:(?=\d+\.)/i, '')

function hexOfIpv4(address: string): string {
  return wordOf(address.split('.').reduce((word, byte) => word * 256 + Number(byte), 0))
}

function hexOfIpv6(address: string): string {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = new Array<string>(Math.max(0, 8 - first.length - last.length)).fill('0')
  const groups = [...first, ...zeros, ...last].map((group) => Number.parseInt(group, 16))
  let hex = ''
  for (let at = 0; at < 8; at += 2) {
    hex += wordOf((groups[at] as number) * 65_536 + (groups[at + 1] as number))
  }
  return hex
}

/** Writes four bytes, given in network order, as hexadecimal in the byte order of this machine. */
function wordOf(word: number): string {
  const hex = hexOf(word, 8)
  return endianness() === 'BE' ? hex : (hex.match(/../g) as string[]).reverse().join('')
}

const hexOf = (value: number, digits: number) =>
  value.toString(16).toUpperCase().padStart(digits, '0')
