import { expect, test } from 'vitest'
import { contentParts } from './content-parts.ts'

test('reads texts, images and other parts of a message', () => {
  const png = 'data:image/png;base64,iVBORw0KGgo='
  expect(contentParts('text')).toEqual([{ kind: 'text', text: 'text' }])
  expect(contentParts('')).toEqual([])
  expect(contentParts(null)).toEqual([])
  expect(
    contentParts([
      { type: 'text', text: 'a' },
      { type: 'image_url', image_url: { url: png } },
      { type: 'image', image: png },
      { type: 'audio', audio: 1 },
      'b',
    ]),
  ).toEqual([
    { kind: 'text', text: 'a' },
    { kind: 'image', source: png, address: png },
    { kind: 'image', source: png, address: png },
    { kind: 'other', value: { type: 'audio', audio: 1 } },
    { kind: 'text', text: 'b' },
  ])
})

test('loads stored raster images by their hash, and names others', () => {
  const sha256 = '0f'.repeat(32)
  const part = (type: string) =>
    contentParts([{ type: 'image', image: `data:${type};base64,/${sha256}` }])[0]
  expect(part('image/webp')).toMatchObject({ source: `/api/images/${sha256}` })
  const address = `image/svg+xml, SHA-256 ${sha256}`
  expect(part('image/svg+xml')).toEqual({ kind: 'image', source: null, address })
})

test.each([
  'http://hostile.invalid/a.png',
  '//hostile.invalid/a.png',
  'javascript:alert(1)',
  'data:image/svg+xml;base64,PHN2Zy8+',
  'data:text/html;base64,PHN2Zy8+',
  'data:image/png;base64,"><script>',
])('never loads %j', (url) => {
  expect(contentParts([{ type: 'image_url', image_url: { url } }])).toEqual([
    { kind: 'image', source: null, address: url },
  ])
})
