import { hash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

const WIDTH = 240
const HEIGHT = 120

/** The images of seeded trajectories by their SHA-256: charts of two sums, as a calculator would draw them. */
export function seededImages(): Map<string, Buffer> {
  const charts = [
    [34, 61, 95],
    [72, 15, 87],
  ].map((heights) => png((x, y) => chartColor(heights, x, y)))
  return new Map(charts.map((bytes) => [hash('sha256', bytes, 'hex'), bytes]))
}

function chartColor(heights: readonly number[], x: number, y: number): [number, number, number] {
  const bar = heights[Math.floor(x / (WIDTH / heights.length))] as number
  const within = x % (WIDTH / heights.length)
  const up = HEIGHT - 12 - y
  if (up === 0) return [90, 98, 110]
  if (within < 20 || within >= 60 || up < 0 || up > bar) return [247, 248, 250]
  // Noise, as in a photo of a screen.
  const grain = ((x * 31 + y * 17) ^ (x * y)) % 9
  return [11 + grain, 107 + up - grain, 181 + grain]
}

function png(colorOf: (x: number, y: number) => readonly [number, number, number]): Buffer {
  const rows = Array.from({ length: HEIGHT }, (_, y) => [
    0,
    ...Array.from({ length: WIDTH }, (_, x) => colorOf(x, y)).flat(),
  ])
  const header = Buffer.alloc(13)
  header.writeUInt32BE(WIDTH, 0)
  header.writeUInt32BE(HEIGHT, 4)
  // 8 bits, RGB, PNG's only methods of compression and filtering, and no interlacing.
  header.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.from(rows.flat()))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(typed))
  return Buffer.concat([length, typed, sum])
}
