import { describe, expect, it } from 'vitest'
import { isRewardOpsError } from '../../errors.ts'
import { BodySplitter, parseJson } from './body-splitter.ts'

function split(pieces: Buffer[]): { envelope: unknown; elements: unknown[] } | string {
  const elements: unknown[] = []
  const splitter = new BodySplitter((json, long) => {
    elements.push(parseJson(json, `samples[${elements.length}]`, long))
  })
  try {
    for (const piece of pieces) splitter.push(piece)
    return { envelope: splitter.finish(), elements }
  } catch (error) {
    if (isRewardOpsError(error)) return error.reason
    throw error
  }
}

function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

function cut(body: Buffer, next: () => number): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length; ) {
    const length = 1 + Math.floor(next() ** 3 * 40)
    pieces.push(body.subarray(at, at + length))
    at += length
  }
  return pieces
}

const ODD = [
  '"',
  '\\',
  '\\"',
  '],[',
  '"samples":[',
  '{',
  '}',
  '\n',
  '\u0000',
  '\ud800',
  'é',
  '漢',
  '😀',
  'a',
]

function value(next: () => number, depth: number): unknown {
  const kind = Math.floor(next() * (depth > 2 ? 4 : 6))
  if (kind === 0) return Math.round(next() * 1e6) / 10
  if (kind === 1) return next() < 0.5
  if (kind === 2) return null
  if (kind === 3)
    return Array.from(
      { length: Math.floor(next() * 6) },
      () => ODD[Math.floor(next() * ODD.length)],
    ).join('')
  if (kind === 4)
    return Array.from({ length: Math.floor(next() * 4) }, () => value(next, depth + 1))
  return Object.fromEntries(
    Array.from({ length: Math.floor(next() * 4) }, (_, i) => [
      `${ODD[Math.floor(next() * ODD.length)]}${i}`,
      value(next, depth + 1),
    ]),
  )
}

describe('BodySplitter', () => {
  it('returns the result of JSON.parse for any chunk boundaries', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const next = random(seed)
      const elements = Array.from({ length: Math.floor(next() * 5) }, () => value(next, 0))
      const rest = Object.fromEntries(
        Array.from({ length: Math.floor(next() * 4) }, (_, i) => [`k${i}`, value(next, 0)]),
      )
      const body = next() < 0.5 ? { ...rest, samples: elements } : { samples: elements, ...rest }
      const text = JSON.stringify(body, null, next() < 0.5 ? 0 : 2)
      const got = split(cut(Buffer.from(text), next))
      expect(got, `seed ${seed}: ${text}`).toEqual({ envelope: { ...rest, samples: [] }, elements })
    }
  })

  it('refuses bodies that JSON.parse refuses', () => {
    const text = JSON.stringify({
      run: 'r',
      samples: [{ a: [1, { b: '"]}' }] }, { c: 2 }],
      step: 1,
    })
    for (let at = 0; at < text.length; at++) {
      for (const broken of [
        text.slice(0, at) + text.slice(at + 1),
        text.slice(0, at),
        `${text.slice(0, at)},${text.slice(at)}`,
      ]) {
        let valid = true
        try {
          JSON.parse(broken)
        } catch {
          valid = false
        }
        const got = split(cut(Buffer.from(broken), random(at + 1)))
        if (valid) expect(got, broken).not.toBe('malformed_json')
        else expect(got, broken).toBe('malformed_json')
      }
    }
  })

  it('ignores arrays under other keys and the word "samples" elsewhere', () => {
    const body = {
      x: { samples: [1, 2] },
      y: [['samples']],
      z: '"samples":[',
      samples: [{ samples: [3] }],
    }
    expect(split([Buffer.from(JSON.stringify(body))])).toEqual({
      envelope: { ...body, samples: [] },
      elements: [{ samples: [3] }],
    })
  })

  it('refuses a second key "samples", bytes that are not UTF-8, and integers that would be rounded', () => {
    expect(split([Buffer.from('{"samples":[],"samples":[1]}')])).toBe('malformed_json')
    expect(split([Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])])).toBe('malformed_json')
    expect(split([Buffer.from('{"samples":[{"a":9007199254740993}]}')])).toBe(
      'integer_out_of_range',
    )
    expect(split([Buffer.from('{"samples":[{"a":[-900719925474'), Buffer.from('0993]}]}')])).toBe(
      'integer_out_of_range',
    )
    expect(split([Buffer.from('{"n":9007199254740993,"samples":[]}')])).toBe('integer_out_of_range')
    expect(
      split([
        Buffer.from(
          '{"samples":[{"a":9007199254740991,"b":"9007199254740993","c":0.12345678901234567890}]}',
        ),
      ]),
    ).toEqual({
      envelope: { samples: [] },
      elements: [{ a: 9007199254740991, b: '9007199254740993', c: 0.12345678901234568 }],
    })
  })
})
