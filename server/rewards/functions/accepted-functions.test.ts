import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FULL } from '../../../testkit/service/full-run.ts'
import { RewardSpec } from '../../contract/trainer.ts'
import { AcceptedFunctions } from './accepted-functions.ts'
import { TEST_PLAN } from './testing/test-plan.ts'

let folder: string
let functions: AcceptedFunctions
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-accept-'))
  // Functions may run as another user.
  chmodSync(folder, 0o755)
  functions = newFunctions()
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const newFunctions = () =>
  new AcceptedFunctions({
    functionsDir: join(folder, 'mine'),
    versionsDir: join(folder, 'versions'),
    settings: { env: {}, memoryBytes: 256 << 20, plan: TEST_PLAN },
    loadMs: 8_000,
  })

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, 'mine', path)), { recursive: true })
  writeFileSync(join(folder, 'mine', path), text)
}

const resolve = (reward: object) => functions.resolve(RewardSpec.parse(reward))

test('a reward without custom functions has none to resolve', async () => {
  expect(await resolve({ function: { name: 'gsm8k' } })).toEqual({
    versions: new Map(),
    sources: [],
  })
})

test('every function that a reward names is resolved: components and manager', async () => {
  write(
    'a.ts',
    'export const first = () => 1\nexport class Second { computeScore() {} post_process_scores() {} }',
  )
  write('m.ts', 'export default class { async run_single() {} }')
  const sum = await resolve({
    manager: { path: 'm.ts' },
    combine: [
      { name: 'x', reward: { function: { path: 'a.ts', name: 'first' } } },
      { name: 'y', reward: { function: { path: './a.ts', name: 'Second' } } },
      { name: 'z', reward: { function: { name: 'gsm8k' } } },
    ],
  })
  expect(sum.sources.map(({ path }) => path)).toEqual(['m.ts', 'a.ts'])
  expect([...sum.versions.values()]).toMatchObject([
    { path: 'm.ts', form: 'class', methods: ['run_single'] },
    { path: 'a.ts', form: 'function', methods: [] },
    { path: 'a.ts', form: 'class', methods: ['computeScore', 'post_process_scores'] },
  ])
})

test.each<readonly [what: string, text: string, name: string | undefined, message: RegExp]>([
  [
    'a missing export and lists the existing ones',
    'export const compute_score = () => 1\nexport const other = () => 1\nexport const n = 1',
    'compute_scores',
    /no export "compute_scores"\. Did you mean "compute_score"\? Known: compute_score, other/,
  ],
  [
    'a module with nothing to call',
    'export const n = 1',
    undefined,
    /no default export that can be called/,
  ],
  [
    'an export that cannot be called',
    'export const n = 1',
    'n',
    /"n" is neither a function, a class nor/,
  ],
  ['a class without a method', 'export default class {}', undefined, /none of the methods comp/],
  ['a module that throws on load', '\nthrow new Error("no data")', undefined, /no data \(a\.ts:2/],
  ['a module that exits on load', 'process.exit(4)', undefined, /code 4 while/],
  ...(FULL
    ? [['an endless loop', 'for (;;) {}', undefined, /not loaded within 8000 ms/] as const]
    : []),
  ['a package that is not installed', `import 'no-such-package'`, undefined, /no-such-package/],
])('refuses %s', async (_, text, name, message) => {
  write('a.ts', text)
  await expect(resolve({ function: { path: 'a.ts', name } })).rejects.toMatchObject({
    reason: 'invalid_function',
    message: expect.stringMatching(message),
  })
})

test('a package of the functions folder is found', async () => {
  write('node_modules/ours/package.json', '{"main": "index.js"}')
  write('node_modules/ours/index.js', 'exports.seven = 7')
  write('a.ts', `import { seven } from 'ours'\nexport default () => seven`)
  expect((await resolve({ function: { path: 'a.ts' } })).versions.size).toBe(1)
})

test('a package that is installed after the first submit is found', async () => {
  write('a.ts', `import { seven } from 'ours'\nexport default () => seven`)
  const submit = () => resolve({ function: { path: 'a.ts' } })
  await expect(submit()).rejects.toMatchObject({ reason: 'invalid_function' })
  write('node_modules/ours/package.json', '{"main": "index.js"}')
  write('node_modules/ours/index.js', 'exports.seven = 7')
  const [version] = [...(await submit()).versions.values()]
  // Earlier releases unpacked versions without the link `node_modules`.
  rmSync(join(folder, 'versions', version?.hash as string, 'node_modules'))
  functions = newFunctions()
  expect((await submit()).versions.size).toBe(1)
})
