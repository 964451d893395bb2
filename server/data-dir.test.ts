import {
  chmodSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { prepareDataDir } from './data-dir.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-dir-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

it('closes the data folder to other users', () => {
  const fresh = join(folder, 'a/b')
  prepareDataDir(fresh)
  expect(modeOf(fresh)).toBe('700')
  const older = join(folder, 'older')
  mkdirSync(older)
  chmodSync(older, 0o777)
  prepareDataDir(older)
  expect(modeOf(older)).toBe('711')
})

describe.runIf(process.getuid?.() === 0)('as root', () => {
  it('refuses links of other users, at and in the data folder, and accepts those of root', () => {
    const real = join(folder, 'real')
    mkdirSync(join(real, 'data'), { recursive: true })
    symlinkSync(real, join(folder, 'link'))
    const throughLink = join(folder, 'link/data')
    expect(() => prepareDataDir(throughLink)).not.toThrow()
    lchownSync(join(folder, 'link'), 65_534, 65_534)
    expect(() => prepareDataDir(throughLink)).toThrow(/link is a link of user id 65534/)

    const inside = join(real, 'data/functions')
    symlinkSync('/etc', inside)
    expect(() => prepareDataDir(join(real, 'data'))).not.toThrow()
    lchownSync(inside, 65_534, 65_534)
    expect(() => prepareDataDir(join(real, 'data'))).toThrow(/functions is a link/)
  })
})
