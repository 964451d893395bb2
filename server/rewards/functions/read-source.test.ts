import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readSource } from './read-source.ts'

let folder: string
let elsewhere: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-source-'))
  elsewhere = mkdtempSync(join(tmpdir(), 'rewardops-elsewhere-'))
})
afterEach(() => {
  for (const dir of [folder, elsewhere]) rmSync(dir, { recursive: true, force: true })
})

function write(path: string, text: string | Buffer): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

const read = (path: string) => readSource('reward.function', path, folder)
const filesOf = async (path: string) => Object.keys((await read(path)).files)

test('reads a file with all its imports from the folder, in any syntax', async () => {
  write(
    'rewards/main.ts',
    `import { a } from './a.ts'
     import type { T } from './only-types.ts'
     import data from '../data.json' with { type: 'json' }
     export * from './b.mjs'
     const words = new URL('./words.txt', import.meta.url)
     export default async () => (await import('./lazy.ts')).lazy + a + data.n`,
  )
  write('rewards/a.ts', `import zod from 'zod'\nimport './deep/c.cjs'\nexport const a = 1`)
  write('rewards/deep/c.cjs', `require('./d'); require('node:fs'); require('./optional')`)
  write('rewards/deep/d.js', '')
  write('rewards/b.mjs', `import './a.ts'\nexport const b = 1`)
  write('rewards/lazy.ts', 'export const lazy = 1')
  write('rewards/words.txt', Buffer.from([0xff, 0xfe, 0x00]))
  write('data.json', '{"n": 1}')
  write('not-imported.ts', '')
  const source = await read('rewards/main.ts')
  expect(Object.keys(source.files)).toEqual([
    'data.json',
    ...['a.ts', 'b.mjs', 'deep/c.cjs', 'deep/d.js', 'lazy.ts', 'main.ts', 'words.txt'].map(
      (path) => `rewards/${path}`,
    ),
  ])
  expect(source.files['rewards/words.txt']).toEqual({ base64: '//4A' })
  expect(source).toMatchObject({ path: 'rewards/main.ts', hash: expect.stringMatching(/^\w{64}$/) })
})

test('an edit of an imported file makes a new version, other edits do not', async () => {
  write('main.ts', `import './a.ts'\nexport default () => 1`)
  write('a.ts', '')
  write('b.ts', '')
  const first = await read('./main.ts')
  write('b.ts', 'export {}')
  expect(await read('main.ts')).toEqual(first)
  write('a.ts', 'export {}')
  const second = await read('main.ts')
  expect(second.hash).not.toBe(first.hash)
  write('a.ts', '')
  expect(await read('main.ts')).toEqual(first)
})

test('finds the imports of a large file', async () => {
  const filling = Array.from({ length: 20_000 }, (_, i) => `const v${i} = [${i}]`).join('\n')
  write('bundle.js', `import './a.ts'\n${filling}\nexport default () => import("./lazy.ts")`)
  write('a.ts', '')
  write('lazy.ts', '')
  expect(await filesOf('bundle.js')).toEqual(['a.ts', 'bundle.js', 'lazy.ts'])
})

test('two files that import each other are read once', async () => {
  write('a.ts', `import './b.ts'`)
  write('b.ts', `import './a.ts'`)
  expect(await filesOf('a.ts')).toEqual(['a.ts', 'b.ts'])
})

test.each(['../main.ts', 'a/../../main.ts', '/etc/passwd.ts', 'a\u0000.ts', '', '.'])(
  'refuses %j, which lies outside the folder',
  async (path) => {
    await expect(read(path)).rejects.toMatchObject({ reason: 'function_outside_folder' })
  },
)

test('the target of a link counts, not the location of the link', async () => {
  writeFileSync(join(elsewhere, 'secret.ts'), 'export default () => 1')
  symlinkSync(join(elsewhere, 'secret.ts'), join(folder, 'link.ts'))
  symlinkSync(elsewhere, join(folder, 'linked'))
  write('inside.ts', 'export default () => 1')
  symlinkSync(join(folder, 'inside.ts'), join(folder, 'alias.ts'))
  write('main.ts', `import './linked/secret.ts'`)
  for (const path of ['link.ts', 'linked/secret.ts', 'main.ts']) {
    await expect(read(path)).rejects.toMatchObject({ reason: 'function_outside_folder' })
  }
  expect(await filesOf('alias.ts')).toEqual(['alias.ts'])
})

test('an import from outside the folder is refused, with the names of both files', async () => {
  write('main.ts', `import '../outside.ts'`)
  await expect(read('main.ts')).rejects.toMatchObject({
    reason: 'function_outside_folder',
    message: expect.stringContaining('main.ts → ../outside.ts'),
  })
})

test.each([
  ['main.ts', `import './gone.ts'`, /main\.ts imports "\.\/gone\.ts", which does not exist/],
  ['main.ts', 'export default () => {\n  return (\n}', /main\.ts:3: /],
  ['main.py', 'def compute_score(): pass', /neither TypeScript nor JavaScript/],
])('refuses %s with %j', async (path, text, message) => {
  write(path, text)
  await expect(read(path)).rejects.toMatchObject({
    reason: 'invalid_function',
    message: expect.stringMatching(message),
  })
})

test('a missing file is reported with the nearest existing one', async () => {
  write('my_reward.ts', '')
  await expect(read('my_rewrad.ts')).rejects.toMatchObject({
    reason: 'invalid_function',
    message: expect.stringContaining('Did you mean "my_reward.ts"?'),
  })
  await expect(readSource('reward.function', 'a.ts', join(folder, 'none'))).rejects.toMatchObject({
    reason: 'invalid_function',
    message: /functions folder does not exist/,
  })
})

test('refuses too many files and too many bytes', async () => {
  write('main.ts', Array.from({ length: 300 }, (_, i) => `import './m${i}.ts'`).join('\n'))
  for (let i = 0; i < 300; i++) write(`m${i}.ts`, '')
  await expect(read('main.ts')).rejects.toMatchObject({ reason: 'invalid_function' })
  write('large.ts', `export default () => 1 //${'x'.repeat(5 << 20)}`)
  await expect(read('large.ts')).rejects.toMatchObject({ reason: 'invalid_function' })
})
