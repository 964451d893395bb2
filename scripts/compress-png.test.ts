import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32, deflateSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { compressPng, decodePng } from './compress-png.ts'

/** A picture with an alpha channel and no filter, as the simplest of writers makes it. */
function rgba(width: number, height: number, pixel: (x: number, y: number) => number[]): Buffer {
  const chunk = (type: string, body: Buffer) => {
    const typed = Buffer.concat([Buffer.from(type, 'latin1'), body])
    const framed = Buffer.alloc(typed.length + 8)
    framed.writeUInt32BE(body.length, 0)
    typed.copy(framed, 4)
    framed.writeUInt32BE(crc32(typed), typed.length + 4)
    return framed
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 6, 0, 0, 0], 8)
  const lines = Array.from({ length: height }, (_, y) => [
    0,
    ...Array.from({ length: width }, (_, x) => [...pixel(x, y), 255]).flat(),
  ])
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.from(lines.flat()), { level: 0 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

const gradient = rgba(64, 64, (x, y) => [x * 4, y * 4, (x * y) & 255])
/** More than 256 colours, in no order (a linear congruential generator). */
let state = 1
const draw = (most: number) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return (state >>> 20) % most
}
const noise = rgba(64, 64, () => [100 + draw(16), 100 + draw(16), 90 + draw(16)])

describe('a compressed picture', () => {
  it('has the same pixels in fewer bytes, of few colours and of many', () => {
    const stripes = rgba(64, 64, (x) => (x % 8 < 4 ? [10, 20, 30] : [240, 240, 240]))
    for (const png of [gradient, stripes]) {
      const small = compressPng(png)
      expect(small.length).toBeLessThan(png.length / 2)
      expect(decodePng(small).rgb.equals(decodePng(png).rgb)).toBe(true)
    }
    const picture = readFileSync(join(import.meta.dirname, '../e2e/pictures/run-source-light.png'))
    expect(decodePng(compressPng(picture)).rgb.equals(decodePng(picture).rgb)).toBe(true)
  })

  it('of 256 colours is near to what it was', () => {
    const small = compressPng(noise, true)
    const [before, after] = [decodePng(noise).rgb, decodePng(small).rgb]
    const furthest = before.reduce(
      (most, byte, at) => Math.max(most, Math.abs(byte - after[at]!)),
      0,
    )
    expect(furthest).toBeGreaterThan(0)
    expect(furthest).toBeLessThan(12)
    // Compressed again, it stays as it is.
    expect(decodePng(compressPng(small, true)).rgb.equals(after)).toBe(true)
  })

  it('is refused where it would not stay the same', () => {
    expect(() => compressPng(Buffer.from('GIF89a'))).toThrow('it is no PNG')
  })
})
