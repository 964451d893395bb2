import { beforeEach, describe, expect, it } from 'vitest'
import { isRewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { WrongKeys } from './wrong-keys.ts'

let nowMs = 0
let lines: { address: string; wrongKeys: number }[] = []
let backOffs: string[] = []
let keys: WrongKeys
beforeEach(() => {
  nowMs = 0
  lines = []
  backOffs = []
  const log = { warn: (line: (typeof lines)[number]) => lines.push(line) } as unknown as Logger
  keys = new WrongKeys(log, () => nowMs)
  keys.onBackOff = (address, wrong) => backOffs.push(`${address} ${wrong}`)
})

/** Sends a wrong key. Returns the wait in ms that the answer names, or null if the answer is `unauthorized`. */
function send(address: string): number | null {
  try {
    keys.add(address)
    return null
  } catch (error) {
    if (!isRewardOpsError(error)) throw error
    expect(error.reason).toBe('too_many_wrong_keys')
    return error.retryAfterMs as number
  }
}

describe('wrong keys', () => {
  it('are delayed after the tenth, for twice as long each time, up to a minute', () => {
    for (let i = 0; i < 10; i++) expect(send('192.0.2.1')).toBeNull()
    const waits: number[] = []
    for (let i = 0; i < 9; i++) {
      const waitMs = send('192.0.2.1') as number
      waits.push(waitMs)
      // Attempts during the wait do not prolong it.
      nowMs += waitMs / 2
      expect(send('192.0.2.1')).toBe(waitMs / 2)
      nowMs += waitMs / 2
      expect(send('192.0.2.1')).toBeNull()
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((s) => 1_000 * s))
  })

  it('of another address are not delayed, and an address is forgotten after 15 minutes', () => {
    for (let i = 0; i < 12; i++) send('192.0.2.1')
    expect(send('192.0.2.1')).toBeGreaterThan(0)
    expect(send('192.0.2.2')).toBeNull()
    nowMs += 15 * 60_000
    for (let i = 0; i < 10; i++) expect(send('192.0.2.1')).toBeNull()
  })

  it('of one IPv6 network of 64 bits are counted together', () => {
    for (let i = 0; i < 10; i++) expect(send(`2001:db8:0:1::${i}`)).toBeNull()
    expect(send('2001:db8::1:9:9:9:9')).toBe(1_000)
    expect(send('2001:db8:0:2::1')).toBeNull()
  })

  it('are counted, while log lines and reports stay few', () => {
    for (let i = 0; i < 10_000; i++) {
      nowMs += 1
      send('192.0.2.1')
    }
    const { unauthorized, tooMany } = keys.counts
    expect(unauthorized + tooMany).toBe(10_000)
    expect(unauthorized).toBeLessThan(20)
    expect(lines).toHaveLength(1)
    expect(backOffs).toEqual(['192.0.2.1 10'])
    nowMs += 10_000
    send('192.0.2.1')
    expect(lines.map(({ wrongKeys }) => wrongKeys)).toEqual([1, 10_000])
  })

  it('of very many addresses are held in bounded memory and reported at most 60 times an hour', () => {
    for (let a = 0; a < 100; a++) for (let i = 0; i < 10; i++) send(`192.0.2.${a}`)
    expect(backOffs).toHaveLength(60)
    for (let a = 0; a < 10_000; a++) send(`198.51.${a >> 8}.${a & 255}`)
    expect(send('192.0.2.0')).toBeNull()
    nowMs += 3_600_000
    for (let i = 0; i < 10; i++) send('203.0.113.1')
    expect(backOffs).toHaveLength(61)
  })
})
