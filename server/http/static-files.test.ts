import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, get, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { brotliDecompressSync, createGunzip, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chosenEncoding } from './content-encoding.ts'
import { packAnswer } from './packed-answer.ts'
import { createStaticFiles } from './static-files.ts'

describe('the encoding of an answer', () => {
  test.each([
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip, deflate', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['*', 'br'],
    ['*;q=0, gzip', 'gzip'],
    ['identity', null],
    ['', null],
    [undefined, null],
  ])('%s → %s', (accepted, expected) => {
    expect(chosenEncoding(accepted, ['br', 'gzip'])).toBe(expected)
  })
})

function fetchRaw(url: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { headers, agent: false }, resolve).on('error', reject)
  })
}
async function bodyOf(answer: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

const SCRIPT = 'export const answer = 42;\n'.repeat(4_000)
const FONT = randomBytes(5_000)
let folder = ''
let server: Server
let url = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rewardops-static-'))
  await mkdir(join(folder, 'chunks'))
  await mkdir(join(folder, 'media'))
  await writeFile(join(folder, 'chunks/a1.js'), SCRIPT)
  await writeFile(join(folder, 'chunks/[id] page.css'), 'a{}')
  await writeFile(join(folder, 'media/f.woff2'), FONT)
  await writeFile(join(folder, 'secret.key'), 'no')
  const statics = await createStaticFiles(folder)
  server = createServer((req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] as string
    void statics(path, req, res).then((sent) => {
      if (!sent) res.writeHead(404).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/_next/static`
})
afterAll(async () => {
  server.close()
  await rm(folder, { recursive: true, force: true })
})

describe('files of the build', () => {
  test.each([
    ['br', 'gzip, deflate, br', brotliDecompressSync],
    ['gzip', 'gzip, deflate', gunzipSync],
    [undefined, 'identity', (bytes: Buffer) => bytes],
  ] as const)('a script is sent as %s', async (encoding, accepted, unpack) => {
    const answer = await fetchRaw(`${url}/chunks/a1.js`, { 'accept-encoding': accepted })
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-encoding']).toBe(encoding)
    expect(answer.headers['content-type']).toBe('text/javascript; charset=utf-8')
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
    expect(answer.headers.vary).toBe('accept-encoding')
    const body = await bodyOf(answer)
    expect(Number(answer.headers['content-length'])).toBe(body.length)
    expect(unpack(body).toString()).toBe(SCRIPT)
    if (encoding) expect(body.length).toBeLessThan(SCRIPT.length / 20)
  })

  test('fonts and files smaller than a packet are sent uncompressed', async () => {
    const font = await fetchRaw(`${url}/media/f.woff2`, { 'accept-encoding': 'br' })
    expect(font.headers['content-encoding']).toBeUndefined()
    expect(await bodyOf(font)).toEqual(FONT)
    const style = await fetchRaw(`${url}/chunks/%5Bid%5D%20page.css?dpl=1`, {
      'accept-encoding': 'br',
    })
    expect(style.headers['content-encoding']).toBeUndefined()
    expect((await bodyOf(style)).toString()).toBe('a{}')
  })

  test.each([
    'chunks/gone.js',
    'chunks/../secret.key',
    '%2e%2e/%2e%2e/etc/passwd',
    'secret.key',
    'chunks',
    '%E0%A4%A',
  ])('%s is not found', async (path) => {
    const answer = await fetchRaw(`${url}/${path}`, {})
    expect(answer.statusCode).toBe(404)
    answer.resume()
  })
})

describe('answers of the pages', () => {
  async function serving(
    handle: Parameters<typeof createServer>[1],
    headers: Record<string, string>,
  ) {
    const own = createServer(handle)
    await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', resolve))
    const { port } = own.address() as AddressInfo
    const answer = await fetchRaw(`http://127.0.0.1:${port}/`, headers)
    return { answer, close: () => own.close() }
  }

  test('each chunk arrives when it is flushed, not when the last is written', async () => {
    let goOn = () => {}
    const waits = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const { answer, close } = await serving(
      async (req, res) => {
        packAnswer(req, res)
        res.setHeader('content-type', 'application/json')
        res.setHeader('vary', 'trpc-accept')
        res.write('{"fast":1}\n')
        ;(res as unknown as { flush(): void }).flush()
        await waits
        for (let i = 0; i < 200; i++) {
          if (!res.write(`{"slow":"${'x'.repeat(5_000)}"}\n`)) {
            await new Promise((resolve) => res.once('drain', resolve))
          }
        }
        res.end()
      },
      { 'accept-encoding': 'gzip' },
    )
    expect(answer.headers['content-encoding']).toBe('gzip')
    expect(answer.headers.vary).toBe('trpc-accept, accept-encoding')
    const text = answer.pipe(createGunzip()).setEncoding('utf8')
    let got = ''
    for await (const piece of text) {
      got += piece
      if (got === '{"fast":1}\n') goOn()
    }
    expect(got.split('\n')).toHaveLength(202)
    close()
  })

  test('other types, and answers to clients that do not accept gzip, are sent unchanged', async () => {
    for (const [type, accepted] of [
      ['text/event-stream', 'gzip'],
      ['application/json', 'identity'],
    ] as const) {
      const { answer, close } = await serving(
        (req, res) => {
          packAnswer(req, res)
          res.setHeader('content-type', type)
          res.write('one ')
          res.end('two')
        },
        { 'accept-encoding': accepted },
      )
      expect(answer.headers['content-encoding']).toBeUndefined()
      expect((await bodyOf(answer)).toString()).toBe('one two')
      close()
    }
  })

  test('a reader that disconnects ends the answer', async () => {
    const closed = Promise.withResolvers<void>()
    const { answer, close } = await serving(
      async (req, res) => {
        packAnswer(req, res)
        res.once('close', () => closed.resolve())
        res.setHeader('content-type', 'application/json')
        while (!res.destroyed) {
          res.write(randomBytes(2_000).toString('hex'))
          await turn()
        }
      },
      { 'accept-encoding': 'gzip' },
    )
    answer.destroy()
    await closed.promise
    close()
  })
})
