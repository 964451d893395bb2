import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { FileTarget } from './targets.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-target-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const plain = { resume: false, force: false, columns: undefined }

it('writes a file that only its user can read', async () => {
  const path = join(folder, 'out.jsonl')
  const target = await FileTarget.open(path, 'jsonl', plain)
  await target?.write(Buffer.from('{}\n'))
  await target?.finish()
  expect(readFileSync(path, 'utf8')).toBe('{}\n')
  expect((statSync(path).mode & 0o777).toString(8)).toBe('600')
})

it('does not write through a link in the place of the file', async () => {
  const other = join(folder, 'other')
  writeFileSync(other, 'kept')
  symlinkSync(other, join(folder, 'out.jsonl.part'))
  const opened = FileTarget.open(join(folder, 'out.jsonl'), 'jsonl', { ...plain, force: true })
  await expect(opened).rejects.toThrow(/is a link/)
  expect(readFileSync(other, 'utf8')).toBe('kept')
})
