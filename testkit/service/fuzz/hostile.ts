import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'

/** Marks a text that {@link jsonText} replaces with invalid JSON, or with JSON that `JSON.stringify` never writes. */
const RAW = '@raw:'

/** JSON texts by the name that follows {@link RAW}. */
const RAW_TEXTS: Readonly<Record<string, string>> = {
  int8: '9223372036854775807',
  beyondInt8: '9223372036854775808',
  beyondDouble: '1e999',
  manyDigits: '1'.repeat(5_000),
  negativeZero: '-0',
  NaN: 'NaN',
  Infinity: '-Infinity',
  undefined: 'undefined',
  deepList: `${'['.repeat(10_000)}${']'.repeat(10_000)}`,
  deepObject: `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
  unclosed: '['.repeat(10_000),
  duplicateKeys: '{"a":1,"a":2,"__proto__":{"a":3},"__proto__":null}',
  comment: '1 /* one */',
  badEscape: '"\\x41"',
  rawControl: '"\u0001\n"',
}

export const HOSTILE_VALUES: readonly unknown[] = [
  ...[0, -1, 0.5, 32_767, 32_768, 65_536, 1e308, 5e-324, 1e21],
  ...[0x7fff_ffff, 0x8000_0000, -0x8000_0000, -0x8000_0001, 0xffff_ffff, 0x1_0000_0000],
  ...[2 ** 53 - 1, 2 ** 53, 2 ** 63, -(2 ** 63), 2 ** 64],
  ...[null, true, false, [], {}, [[]], [null], [{}]],
  ...['', ' ', '\u0000', 'a\u0000b', '\ud800', 'a\udfff', '\u202e', '\ufeff', '\u2028', '\r\n\t'],
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'length', 'then'],
  ...[
    "'; drop table batch; --",
    '%00',
    '%s%n',
    '\u0024{7*7}',
    '{{7*7}}',
    '<script>alert(1)</script>',
  ],
  ...['../../../../etc/passwd', '/etc/passwd', 'file:///etc/passwd', 'C:\\windows', '\\\\host\\s'],
  ...['NaN', '1e309', '0x10', '١٢٣', 'null', 'undefined', '[object Object]', 'b0', 'b-1', 'b1-'],
  ...[
    'b999999999999999999',
    'b1-999999999',
    'b2147483648-1',
    '2026-13-45T25:61:61Z',
    '+275760-09-13',
  ],
  ...['(a+)+$', '[', '(?<', '%', '_', '\\', '\\u0000', '*', '?', '#', '&', '=', ';', ','],
  'x'.repeat(257),
  'x'.repeat(100_000),
  '\u0000'.repeat(300),
  '🦊'.repeat(200),
  'e\u0301'.repeat(500),
  Array.from({ length: 1_001 }, (_, i) => i),
  Array.from({ length: 2_000 }, () => 'b1-0'),
  Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`k${i}`, i])),
  JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
  ...Object.keys(RAW_TEXTS).map((name) => RAW + name),
]

const hostile: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...HOSTILE_VALUES) },
  { weight: 1, arbitrary: fc.string16bits({ maxLength: 300 }) },
  { weight: 1, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.double() },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 4 }) },
)

/** A change at one place of a value. `at` selects the place. */
interface Change {
  how: 'replace' | 'remove' | 'wrap' | 'add'
  at: number
  key: string
  value: unknown
}

const change: fc.Arbitrary<Change> = fc.record({
  how: fc.constantFrom<Change['how'][]>('replace', 'replace', 'replace', 'remove', 'wrap', 'add'),
  at: fc.nat(),
  key: fc.constantFrom('__proto__', 'constructor', 'toString', '', 'a\u0000', 'unknown', 'then'),
  value: hostile,
})

export function withChanges(valid: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const changes = fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 3, arbitrary: fc.array(change, { minLength: 1, maxLength: 3 }) },
  )
  return fc.tuple(valid, changes).map(([value, all]) => all.reduce(changed, value))
}

function changed(value: unknown, { how, at, key, value: by }: Change): unknown {
  const root = { value: structuredClone(value) }
  const places: [holder: Record<PropertyKey, unknown>, key: string][] = [[root, 'value']]
  for (const [holder, name] of places) {
    const inner = holder[name]
    if (typeof inner !== 'object' || inner === null || places.length > 500) continue
    for (const one of Object.keys(inner)) places.push([inner as Record<string, unknown>, one])
  }
  const [holder, name] = places[at % places.length] as (typeof places)[number]
  const inner = holder[name]
  if (how === 'remove' && holder !== root) delete holder[name]
  else if (how === 'wrap') put(holder, name, [inner, by])
  else if (how === 'add' && typeof inner === 'object' && inner !== null) {
    put(inner as Record<string, unknown>, key, by)
  } else put(holder, name, by)
  return root.value
}

/** Sets an own property, even one named `__proto__`. */
function put(holder: object, key: string, value: unknown): void {
  Object.defineProperty(holder, key, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  })
}

export function jsonText(value: unknown): string {
  const text = JSON.stringify(value) ?? ''
  return text.replaceAll(/"@raw:(\w+)"/g, (whole, name: string) => RAW_TEXTS[name] ?? whole)
}

/** A body with its headers, which may describe it wrongly. */
export interface Body {
  bytes: Buffer
  headers: Record<string, string>
}

const JSON_TYPE = { 'content-type': 'application/json' }

/** 20 MiB of zeros, compressed to 20 kB. Only submit and append accept this size. */
const BOMB = gzipSync(Buffer.alloc(20 << 20))

/** Ways to write a text as a body. Most are plain, so that most calls reach the procedure. */
const WRITERS: readonly { weight: number; write: (text: string) => Body }[] = [
  { weight: 60, write: (text) => ({ bytes: Buffer.from(text), headers: JSON_TYPE }) },
  ...(
    [
      (text) => ({ bytes: gzipSync(text), headers: encoded('gzip') }),
      (text) => ({ bytes: zstdCompressSync(text), headers: encoded('zstd') }),
      (text) => ({ bytes: brotliCompressSync(text), headers: encoded('br') }),
      (text) => ({ bytes: gzipSync(text).subarray(0, -5), headers: encoded('gzip') }),
      (text) => ({ bytes: Buffer.from(text), headers: encoded('gzip') }),
      (text) => ({ bytes: gzipSync(text), headers: encoded('zstd') }),
      (text) => ({ bytes: gzipSync(gzipSync(text)), headers: encoded('gzip, gzip') }),
      (text) => ({ bytes: gzipSync(text), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(text), headers: encoded('__proto__') }),
      (text) => ({ bytes: Buffer.from(text, 'utf16le'), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(`\ufeff${text}`), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(text.slice(0, -1)), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(`${text}${text}`), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(`${text},`), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(text.replaceAll('"', "'")), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.concat([Buffer.from(text), Buffer.of(0)]), headers: JSON_TYPE }),
      (text) => ({ bytes: invalidUtf8(text), headers: JSON_TYPE }),
      (text) => ({ bytes: Buffer.from(text), headers: { 'content-type': 'text/plain' } }),
      (text) => ({ bytes: Buffer.from(text), headers: {} }),
      (text) => ({
        bytes: Buffer.from(text),
        headers: { 'content-type': 'application/json; charset=utf-16' },
      }),
      (text) => ({
        bytes: Buffer.from(
          `--x\r\ncontent-disposition: form-data; name="0"\r\n\r\n${text}\r\n--x--`,
        ),
        headers: { 'content-type': 'multipart/form-data; boundary=x' },
      }),
      () => ({ bytes: Buffer.alloc(0), headers: JSON_TYPE }),
      () => ({ bytes: BOMB, headers: encoded('gzip') }),
    ] satisfies ((text: string) => Body)[]
  ).map((write) => ({ weight: 1, write })),
]

function encoded(encoding: string): Record<string, string> {
  return { ...JSON_TYPE, 'content-encoding': encoding }
}

function invalidUtf8(text: string): Buffer {
  const bytes = Buffer.from(text)
  const middle = Math.floor(bytes.length / 2)
  return Buffer.concat([bytes.subarray(0, middle), Buffer.of(0xc3, 0x28), bytes.subarray(middle)])
}

export function bodiesOf(texts: fc.Arbitrary<string>): fc.Arbitrary<Body> {
  const writers = fc.oneof(
    ...WRITERS.map(({ weight, write }) => ({ weight, arbitrary: fc.constant(write) })),
  )
  return fc.tuple(texts, writers).map(([text, write]) => write(text))
}
