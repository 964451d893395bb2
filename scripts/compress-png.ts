import { readFileSync, writeFileSync } from 'node:fs'
import { constants, crc32, deflateSync, inflateSync } from 'node:zlib'

// node scripts/compress-png.ts FILE …: Chromium writes pictures fast, not small. The same pixels in fewer bytes; where a
// picture has more than 256 colours and `--palette` is given, its rarest colours become the nearest of the others.

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const MAX_COLOURS = 256

/** A picture of 8 bits a channel, three channels a pixel. */
export interface Picture {
  width: number
  height: number
  rgb: Buffer
}

/**
 * The same picture in fewer bytes, or `png` itself where there is no gain.
 * @param palette at most 256 colours are kept, the most frequent ones
 * @throws Error when it is no PNG, or not one of 8 bits a channel, opaque and not interlaced
 */
export function compressPng(png: Buffer, palette = false): Buffer {
  const picture = decodePng(png)
  const candidates = [trueColour(picture), indexed(picture, palette)]
  return candidates.reduce<Buffer>(
    (best, one) => (one !== null && one.length < best.length ? one : best),
    png,
  )
}

/** The pixels of a PNG. @throws Error as {@link compressPng} */
export function decodePng(png: Buffer): Picture {
  if (!png.subarray(0, 8).equals(SIGNATURE)) throw new Error('it is no PNG')
  const data: Buffer[] = []
  let header: Buffer | null = null
  let colours: Buffer | null = null
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    const body = png.subarray(at + 8, at + 8 + length)
    if (type === 'IHDR') header = body
    else if (type === 'PLTE') colours = body
    else if (type === 'IDAT') data.push(body)
    at += 12 + length
  }
  if (header === null) throw new Error('it has no header')
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  const [depth, kind, interlaced] = [header[8], header[9] as number, header[12]]
  const channels = ({ 2: 3, 3: 1, 6: 4 } as Record<number, number>)[kind]
  if (depth !== 8 || channels === undefined || interlaced !== 0)
    throw new Error('it is not of 8 bits a channel, in one pass')
  const lines = unfiltered(inflateSync(Buffer.concat(data)), width * channels, height, channels)
  if (channels === 3) return { width, height, rgb: lines }
  const rgb = Buffer.alloc(width * height * 3)
  for (let pixel = 0; pixel < width * height; pixel++) {
    if (channels === 4 && lines[pixel * 4 + 3] !== 255) throw new Error('it is not opaque')
    const from = channels === 4 ? lines : (colours as Buffer)
    const at = channels === 4 ? pixel * 4 : (lines[pixel] as number) * 3
    from.copy(rgb, pixel * 3, at, at + 3)
  }
  return { width, height, rgb }
}

function paeth(a: number, b: number, c: number): number {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)]
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c
}

/** What a filter takes away from a byte: its left, upper and upper left neighbour's part. */
function predicted(filter: number, a: number, b: number, c: number): number {
  if (filter === 0) return 0
  if (filter === 1) return a
  if (filter === 2) return b
  return filter === 3 ? (a + b) >> 1 : paeth(a, b, c)
}

function unfiltered(raw: Buffer, stride: number, height: number, bytes: number): Buffer {
  const out = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)] as number
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x
      const a = x < bytes ? 0 : (out[at - bytes] as number)
      const b = y === 0 ? 0 : (out[at - stride] as number)
      const c = x < bytes || y === 0 ? 0 : (out[at - stride - bytes] as number)
      out[at] = (raw[y * (stride + 1) + 1 + x] as number) + predicted(filter, a, b, c)
    }
  }
  return out
}

/** Lines with the filter in front that leaves the least. */
function filtered(lines: Buffer, stride: number, height: number, bytes: number): Buffer {
  const out = Buffer.alloc((stride + 1) * height)
  const tries = Array.from({ length: 5 }, () => Buffer.alloc(stride))
  for (let y = 0; y < height; y++) {
    let best = 0
    let least = Number.POSITIVE_INFINITY
    for (const [filter, line] of tries.entries()) {
      let sum = 0
      for (let x = 0; x < stride; x++) {
        const at = y * stride + x
        const a = x < bytes ? 0 : (lines[at - bytes] as number)
        const b = y === 0 ? 0 : (lines[at - stride] as number)
        const c = x < bytes || y === 0 ? 0 : (lines[at - stride - bytes] as number)
        const value = ((lines[at] as number) - predicted(filter, a, b, c)) & 255
        line[x] = value
        sum += value < 128 ? value : 256 - value
      }
      if (sum < least) [best, least] = [filter, sum]
    }
    out[y * (stride + 1)] = best
    ;(tries[best] as Buffer).copy(out, y * (stride + 1) + 1)
  }
  return out
}

/** No filter: what repeats is found better so in pictures of flat areas. */
function plain(lines: Buffer, stride: number, height: number): Buffer {
  const out = Buffer.alloc((stride + 1) * height)
  for (let y = 0; y < height; y++)
    lines.copy(out, y * (stride + 1) + 1, y * stride, (y + 1) * stride)
  return out
}

function smallest(...streams: Buffer[]): Buffer {
  return streams
    .flatMap((stream) =>
      [constants.Z_DEFAULT_STRATEGY, constants.Z_FILTERED].map((strategy) =>
        deflateSync(stream, { level: 9, memLevel: 9, strategy }),
      ),
    )
    .reduce((best, one) => (one.length < best.length ? one : best))
}

function trueColour({ width, height, rgb }: Picture): Buffer {
  const stride = width * 3
  const data = smallest(filtered(rgb, stride, height, 3), plain(rgb, stride, height))
  return assembled(width, height, 2, null, data)
}

function indexed({ width, height, rgb }: Picture, mayRound: boolean): Buffer | null {
  const counts = new Map<number, number>()
  for (let at = 0; at < rgb.length; at += 3) {
    const colour = rgb.readUIntBE(at, 3)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  if (counts.size > MAX_COLOURS && !mayRound) return null
  const kept = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, MAX_COLOURS)
    .map(([colour]) => colour)
    .sort((a, b) => a - b)
  const indexOf = new Map(kept.map((colour, index) => [colour, index]))
  for (const colour of counts.keys())
    if (!indexOf.has(colour)) indexOf.set(colour, nearest(colour, kept))
  const lines = Buffer.alloc(width * height)
  for (let at = 0; at < lines.length; at++)
    lines[at] = indexOf.get(rgb.readUIntBE(at * 3, 3)) as number
  const colours = Buffer.alloc(kept.length * 3)
  for (const [index, colour] of kept.entries()) colours.writeUIntBE(colour, index * 3, 3)
  return assembled(width, height, 3, colours, smallest(plain(lines, width, height)))
}

function nearest(colour: number, among: readonly number[]): number {
  let best = 0
  let least = Number.POSITIVE_INFINITY
  for (const [index, other] of among.entries()) {
    let distance = 0
    for (const shift of [16, 8, 0])
      distance += (((colour >> shift) & 255) - ((other >> shift) & 255)) ** 2
    if (distance < least) [best, least] = [index, distance]
  }
  return best
}

function assembled(
  width: number,
  height: number,
  kind: number,
  colours: Buffer | null,
  data: Buffer,
): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, kind, 0, 0, 0], 8)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    ...(colours === null ? [] : [chunk('PLTE', colours)]),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, body: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, 'latin1'), body])
  const framed = Buffer.alloc(typed.length + 8)
  framed.writeUInt32BE(body.length, 0)
  typed.copy(framed, 4)
  framed.writeUInt32BE(crc32(typed), typed.length + 4)
  return framed
}

if (import.meta.main) {
  const palette = process.argv.includes('--palette')
  for (const path of process.argv.slice(2).filter((one) => !one.startsWith('--'))) {
    const before = readFileSync(path)
    const after = compressPng(before, palette)
    writeFileSync(path, after)
    console.log(`${path}: ${before.length} bytes, now ${after.length}`)
  }
}
