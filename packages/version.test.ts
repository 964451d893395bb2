import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { copiedVersions, ownVersion } from './version.ts'

const ROOT = join(import.meta.dirname, '..')

it('the service and all packages have the same version', () => {
  for (const [file, version] of Object.entries(copiedVersions())) {
    expect(version, file).toBe(ownVersion())
  }
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  expect(version).toBe(ownVersion())
})

it('every package contains the license', () => {
  const license = readFileSync(join(ROOT, 'LICENSE'), 'utf8')
  for (const name of ['client-python', 'client-typescript', 'math-verify']) {
    expect(readFileSync(join(ROOT, 'packages', name, 'LICENSE'), 'utf8')).toContain(license)
  }
})
