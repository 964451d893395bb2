import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { filled } from './speed-doc.ts'

const doc = readFileSync(join(import.meta.dirname, '../docs/maintainers/speed.md'), 'utf8')
const query = { name: 'pages.query', page: 'runs', firstMs: 9, p50Ms: 4, p95Ms: 7, kib: 2 }

it('fills the measured parts from the newest run and keeps the others', () => {
  const text = filled(doc, [
    { name: 'machine', cores: 2, cpu: 'a CPU' },
    { name: 'pages.seeded', samples: 1_000, batches: 1, seconds: 1 },
    { ...query, page: 'of another run' },
    { name: 'pages.all', queries: 20, p50Ms: 1, p95Ms: 1, maxMs: 1 },
    { name: 'pages.seeded', samples: 10_000_000, batches: 1_221, isUnchanged: true },
    query,
    {
      name: 'pages.all',
      queries: 20,
      p50Ms: 4,
      p95Ms: 7,
      slowestP50Ms: 4,
      slowestP95Ms: 7,
      maxMs: 9,
    },
  ])
  expect(text).toContain('10,000,000 samples in 1,221 batches. On 2 cores (a CPU).')
  expect(text).toContain('| runs | 9 | 4 | 7 | 2 |')
  expect(text).not.toContain('of another run')
  expect(filled(text, [])).toBe(text)
  const partOf = (page: string, part: string) => page.split(`${part} -->`)[1]
  for (const part of ['watch', 'first-load']) expect(partOf(text, part)).toBe(partOf(doc, part))
  expect(() => filled('nothing', [{ name: 'watch' }])).toThrow('there is no part watch')
})
