import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { checkPackages, type Lock } from './supply-chain.ts'

const DENIED = 'save-exact=true\nignore-scripts=true\n'
const locked = (packages: Lock['packages']) =>
  checkPackages({ packages: { '': {}, ...packages } }, DENIED)

it.each(['MIT', '(MIT OR GPL-3.0-only)', 'MIT AND ISC', 'MIT and ISC', 'GPL-2.0 OR Apache-2.0'])(
  'the license %s is accepted',
  (license) => {
    expect(locked({ 'node_modules/a': { license } })).toEqual([])
  },
)

it.each([
  undefined,
  'GPL-3.0-only',
  'MIT AND GPL-3.0-only',
  'UNLICENSED',
  '(ISC AND (MIT OR X))',
  '',
])('the license %s is reported', (license) => {
  const [finding] = locked({
    'node_modules/b/node_modules/@x/a': license === undefined ? {} : { license },
  })
  expect(finding).toMatch(/^node_modules\/b\/node_modules\/@x\/a: review the license/)
})

it('a license that was reviewed for one package is reported for another', () => {
  const license = 'LGPL-3.0-or-later'
  expect(locked({ 'node_modules/@img/sharp-libvips-linux-x64': { license } })).toEqual([])
  expect(locked({ 'node_modules/a': { license } })).toHaveLength(1)
})

it('an install script that was not reviewed is reported', () => {
  const script = { license: 'MIT', hasInstallScript: true }
  expect(locked({ 'node_modules/prisma': script })).toEqual([])
  expect(locked({ 'node_modules/prisma-x': script })).toEqual([
    expect.stringContaining('install script'),
  ])
})

it('install scripts that npm would run are reported', () => {
  expect(checkPackages({ packages: {} }, 'ignore-scripts=false\n')).toEqual([
    expect.stringContaining('ignore-scripts=true'),
  ])
})

it('the command `notices` writes the licenses of the installed packages', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-notices-'))
  try {
    const file = join(folder, 'notices.txt')
    execFileSync(process.execPath, [join(import.meta.dirname, 'supply-chain.ts'), 'notices', file])
    const text = readFileSync(file, 'utf8')
    expect(text).toMatch(/^Third-party software of rewardops\n/)
    expect(text).toMatch(/^pg-boss \d.*\(MIT\)$/m)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
