import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { folderBytes } from './about.ts'

it('the size of a folder includes every remaining file while subfolders are deleted', async () => {
  const root = mkdtempSync(join(tmpdir(), 'rewardops-about-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const folders = Array.from({ length: 20 }, (_, i) => join(root, `${i}`))
  for (const folder of folders) {
    mkdirSync(folder)
    for (let i = 0; i < 50; i++) writeFileSync(join(folder, `${i}`), 'x')
  }
  expect(await folderBytes(root)).toBe(1_000)
  const size = folderBytes(root)
  // Every second folder is deleted during the count. The order of reading is unknown, but some folders are deleted
  // before they are read.
  for (const folder of folders.filter((_, i) => i % 2 === 0)) {
    await nextTurn()
    rmSync(folder, { recursive: true })
  }
  expect(await size).toBeGreaterThanOrEqual(500)
  expect(await folderBytes(join(root, '0'))).toBe(0)
})
