import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkArchitecture } from './check-architecture.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'architecture-'))
})

afterEach(() => rmSync(root, { recursive: true, force: true }))

function check(files: Record<string, string>): string[] {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  return checkArchitecture(root).breaches
}

test('imports that the rules allow are not reported', () => {
  const breaches = check({
    'app/page.tsx': `import type { Api } from '../server/api/root.ts'\nimport { A } from '../components/a.tsx'\nexport default () => <A<Api> />`,
    'components/a.tsx': `import { x } from '../server/contract/x.ts'\nexport const A = <T,>() => <i>{x as T & string}</i>`,
    'server/api/root.ts': `import { batches } from '../batches/batches.ts'\nexport type Api = typeof batches`,
    'server/batches/batches.ts': `import { s } from '../store/s.ts'\nimport { r } from '../router/r.ts'\nexport const batches = [s, r]`,
    'server/router/r.ts': `import { e } from '../engines/e.ts'\nexport const r = e`,
    'server/engines/e.ts': `import { x } from '../contract/x.ts'\nimport { env } from '../config.ts'\nexport const e = [x, env]`,
    'server/store/s.ts': `import { c } from './generated/client.ts'\nexport const s = c`,
    'server/contract/x.ts': `export const x = 'x'`,
    'server/config.ts': `export const env = process.env`,
    'server/main.ts': `import './batches/batches.ts'\nimport './engines/e.ts'`,
    'server/batches/batches.test.ts': `import { e } from '../engines/e.ts'\nprocess.env.X = String(e)`,
  })
  expect(breaches).toEqual([])
})

test.each([
  ['server/engines/a.ts', `import { b } from '../router/b.ts'`, 'engines must not import router'],
  [
    'server/engines/a.ts',
    `import type { b } from '../router/b.ts'`,
    'engines must not import router',
  ],
  ['server/engines/a.ts', `export * from '../router/b.ts'`, 'engines must not import router'],
  [
    'server/engines/a.ts',
    `const b = () => import('../router/b.ts')`,
    'engines must not import router',
  ],
  ['server/engines/a.ts', `type B = import('../router/b.ts').B`, 'engines must not import router'],
  ['components/a.tsx', `import { b } from '../app/b.tsx'`, 'components must not import app'],
  ['app/a.tsx', `import { b } from '../server/api/b.ts'`, 'app may import the types of api only'],
  ['app/a.tsx', `import type { b } from '../server/store/b.ts'`, 'app must not import store'],
  ['server/batches/a.ts', `import '../store/generated/b.ts'`, 'batches must not import generated'],
  ['server/batches/a.ts', `import './b.test.ts'`, 'batches must not import tests'],
  ['server/batches/a.ts', `import '../../scripts/b.ts'`, 'batches must not import tools'],
  ['server/new/a.ts', `import '../batches/b.ts'`, 'this file is in no layer'],
  ['server/batches/a.ts', `import './nowhere.ts'`, './nowhere.ts does not exist'],
])('%s: %s', (file, text, breach) => {
  const [, specifier = ''] = /'([^']+)'/.exec(text) ?? []
  const target = join(dirname(file), specifier)
  const others = target.includes('nowhere') ? {} : { [target]: 'export const b = 1' }
  expect(check({ [file]: `// one line above\n${text}`, ...others })).toEqual([
    expect.stringContaining(`${file}:2: ${breach}`),
  ])
})

test('a cycle of value imports is reported, a cycle of type imports is not', () => {
  expect(
    check({
      'server/batches/a.ts': `import { b } from './b.ts'`,
      'server/batches/b.ts': `import { c } from './c.ts'`,
      'server/batches/c.ts': `import { a } from './a.ts'`,
      'server/batches/d.ts': `import type { e } from './e.ts'`,
      'server/batches/e.ts': `import { d } from './d.ts'`,
    }),
  ).toEqual([
    'server/batches/a.ts: a cycle: server/batches/a.ts → server/batches/b.ts → server/batches/c.ts → server/batches/a.ts',
  ])
})

test('environment reads outside the permitted files are reported', () => {
  expect(
    check({
      'server/batches/a.ts': `// process.env in a comment\nconst a = process.env.A\nconst b = process['env'].B`,
      'scripts/b.ts': 'process.env.A',
    }),
  ).toEqual([
    'server/batches/a.ts:2: process.env may be read only in config.ts',
    'server/batches/a.ts:3: process.env may be read only in config.ts',
  ])
})
