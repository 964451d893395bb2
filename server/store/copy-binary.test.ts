import { describe, expect, it } from 'vitest'
import { CopyBinary } from './copy-binary.ts'

const MIB = 1 << 20

function rows(texts: readonly string[]): CopyBinary {
  const copy = new CopyBinary(1)
  for (const text of texts) {
    copy.beginRow(3 * text.length)
    copy.text(text)
    copy.endRow()
  }
  return copy
}

function texts(blocks: readonly Buffer[]): string[] {
  const all = Buffer.concat(blocks)
  const found: string[] = []
  for (let at = 19; all.readInt16BE(at) !== -1; ) {
    const bytes = all.readInt32BE(at + 2)
    found.push(all.toString('utf8', at + 6, at + 6 + bytes))
    at += 6 + bytes
  }
  return found
}

function isRowOf(blocks: readonly Buffer[], { buffer }: Buffer): boolean {
  return blocks.some((block) => block.length > 100 && block.buffer === buffer)
}

describe('blocks of COPY rows', () => {
  it('are used again after their release, and not before', () => {
    const first = rows(['a'.repeat(MIB / 4), 'b', 'c'.repeat(MIB / 4)])
    const kept = rows(['kept'])
    const released = new Set(first.blocks().map((block) => block.buffer))
    expect(texts(first.blocks())[1]).toBe('b')
    first.release()

    const second = ['d'.repeat(MIB / 4), 'ü', 'e'.repeat(MIB / 4), 'f'.repeat(MIB / 4)]
    const blocks = rows(second).blocks()
    expect(texts(blocks)).toEqual(second)
    expect(blocks.filter(({ buffer }) => released.has(buffer)).length).toBeGreaterThanOrEqual(2)
    expect(texts(kept.blocks())).toEqual(['kept'])

    // A second release must not free blocks that other rows now use.
    first.release()
    const third = rows(['g']).blocks()
    expect(third.some((block) => isRowOf(blocks, block))).toBe(false)
    expect(texts(blocks)).toEqual(second)
  })

  it('of one long row are not kept', () => {
    const long = rows(['x'.repeat(MIB)])
    const own = long.blocks().map((block) => block.buffer)
    long.release()
    const next = rows(['y'.repeat(MIB)]).blocks()
    expect(next.filter(({ length, buffer }) => length > MIB && own.includes(buffer))).toEqual([])
  })
})
