import { createHash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

/** A valid PNG of `side` × `side` pixels of noise, about `3 × side²` bytes; equal seeds give equal images. */
export function noisePng(seed: string, side: number): Buffer {
  const row = 3 * side + 1
  const pixels = createHash('shake256', { outputLength: row * side })
    .update(seed)
    .digest()
  // Each row begins with its filter type; 0 means no filter.
  for (let y = 0; y < side; y++) pixels[y * row] = 0
  const size = Buffer.alloc(13)
  size.writeUInt32BE(side, 0)
  size.writeUInt32BE(side, 4)
  // 8 bits per channel, RGB.
  size.set([8, 2], 8)
  const signature = Buffer.from('89504e470d0a1a0a', 'hex')
  const chunks = [chunk('IHDR', size), chunk('IDAT', deflateSync(pixels)), chunk('IEND')]
  return Buffer.concat([signature, ...chunks])
}

export function dataUrl(bytes: Buffer, type = 'image/png'): string {
  return `data:${type};base64,${bytes.toString('base64')}`
}

function chunk(type: string, data = Buffer.alloc(0)): Buffer {
  const named = Buffer.concat([Buffer.from(type), data])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  const check = Buffer.alloc(4)
  check.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, check])
}
