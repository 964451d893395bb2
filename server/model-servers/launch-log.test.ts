import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { finished } from 'node:stream/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LaunchLog, tailOf } from './launch-log.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-log-'))
  file = join(folder, 'rm.log')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function write(chunks: string[], secrets: string[] = []): Promise<LaunchLog> {
  const log = new LaunchLog(file, secrets)
  const stream = new PassThrough()
  log.read(stream)
  for (const chunk of chunks) stream.write(chunk)
  stream.end()
  await finished(stream)
  return log
}

describe('the log of a launched server', () => {
  it('contains whole lines for any chunk boundaries', async () => {
    const log = await write(['one\ntw', 'o\r\n 10%\r 90%\rth', 'ree'])
    expect(tailOf(file, 10)).toEqual(['one', 'two', ' 10%', ' 90%', 'three'])
    expect(log.lastLines).toEqual(['one', 'two', ' 10%', ' 90%', 'three'])
    expect(tailOf(file, 2)).toEqual([' 90%', 'three'])
  })

  it('never contains a secret, even one that the pipe splits or that a longer secret contains', async () => {
    const secrets = ['sk-123456', 'sk-123456-longer']
    const log = await write(
      ["args: {'api_key': 'sk-12", "3456'}\nsk-123456-longer here\n"],
      secrets,
    )
    const text = readFileSync(file, 'utf8')
    expect(text).toBe("args: {'api_key': '***'}\n*** here\n")
    expect(log.lastLines.join()).not.toContain('sk-')
  })

  it('contains no part of a secret where a long line is cut', async () => {
    const secrets = ['sk-123456']
    const long = 'x'.repeat(16_380)
    const log = await write([`${long}sk-123456\n`, `${long}xxsk-12`, '3456 and more\n'], secrets)
    expect(readFileSync(file, 'utf8')).not.toMatch(/sk-|3456/)
    expect(log.lastLines.join()).not.toMatch(/sk-|3456/)
    expect(log.lastLines.every((line) => line.length <= 16_384)).toBe(true)
  })

  it('is rotated at 10 MiB, and one old file is kept', async () => {
    writeFileSync(`${file}.1`, 'of the day before\n')
    await write([`${'x'.repeat(1_000)}\n`.repeat(10_600), 'the first after\n', 'the last\n'])
    expect(readFileSync(`${file}.1`, 'utf8').length).toBeGreaterThan(10 << 20)
    expect(readFileSync(file, 'utf8')).toBe('the first after\nthe last\n')
    const tail = tailOf(file, 3)
    expect(tail).toEqual(['x'.repeat(1_000), 'the first after', 'the last'])
  })

  it('is empty when there is no file', () => {
    expect(tailOf(file, 10)).toEqual([])
  })
})
