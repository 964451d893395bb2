import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readServersFile } from './launch-file.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-file-'))
  file = join(folder, 'servers.json')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const entry = { name: 'rm', engine: 'vllm', port: 8101, command: ['vllm', 'serve'] }
const read = (content: unknown) => {
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return readServersFile(file)
}

describe('the file of servers to launch', () => {
  it('fills in defaults', () => {
    expect(read([entry])).toMatchObject([{ kind: 'discriminative', weight: 1, env: {}, tags: [] }])
    expect(read([])).toEqual([])
  })

  const wrong: [string, unknown, RegExp][] = [
    ['no list', {}, /input: .*array/],
    ['no command', [{ ...entry, command: [] }], /\[0\]\.command/],
    ['an unknown field', [{ ...entry, gpus: 2 }], /\[0\]: unknown field "gpus"/],
    ['an unknown engine', [{ ...entry, engine: 'vlm' }], /\[0\]\.engine.*vllm/],
    ['no URL', [{ ...entry, port: undefined }], /url or port/],
    ['a port and another URL', [{ ...entry, url: 'http://127.0.0.1:9' }], /different ports/],
    ['a forbidden URL', [{ ...entry, port: undefined, url: 'file:///x' }], /rm: url: /],
    [
      'a judge on an engine without chat',
      [{ ...entry, engine: 'tei', kind: 'generative' }],
      /rm: kind: tei/,
    ],
    ['a broken chat template', [{ ...entry, chatTemplate: '{% if %}' }], /rm: chatTemplate: /],
    ['one name twice', [entry, entry], /two servers are called "rm"/],
    ['invalid JSON', '[{"apiKey": "sk-secret-key",]', /not valid JSON/],
  ]
  it.each(wrong)('with %s is refused, and the error names the position', (_, content, message) => {
    expect(() => read(content)).toThrow(message)
    expect(() => read(content)).toThrow(file)
  })

  it('is never quoted in an error, because its values may be keys', () => {
    for (const content of [
      '[{"apiKey": sk-secret-key}]',
      [{ ...entry, apiKey: 'sk-secret key' }],
    ]) {
      expect(() => read(content)).toThrow(/REWARDOPS_SERVERS_FILE/)
      expect(() => read(content)).not.toThrow(/sk-secret/)
    }
  })

  it('is named in the error if it is missing', () => {
    expect(() => readServersFile(join(folder, 'none.json'))).toThrow(/none\.json.*ENOENT/)
  })
})
