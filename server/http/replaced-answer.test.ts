import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { packAnswer } from './packed-answer.ts'
import { replacedIn, replaceInAnswer } from './replaced-answer.ts'

async function answerOf(write: (res: ServerResponse) => void, method = 'GET'): Promise<Response> {
  const server = createServer((req, res) => {
    packAnswer(req, res, /^text\//)
    replaceInAnswer(res, '/__base-path__', '/rewardops')
    write(res)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const answer = await fetch(`http://127.0.0.1:${port}`, { method, redirect: 'manual' })
  server.close()
  return answer
}

test('a text is replaced where two chunks split it, in compressed answers too', async () => {
  const answer = await answerOf((res) => {
    res.setHeader('content-type', 'text/html')
    res.setHeader('content-length', 42)
    res.flushHeaders()
    res.write('<a href="/__base-')
    res.write(Buffer.from('path__/runs">ü</a>'))
    res.end('<a href="/__base-path__">')
  })
  expect(answer.headers.get('content-encoding')).toBe('gzip')
  expect(await answer.text()).toBe('<a href="/rewardops/runs">ü</a><a href="/rewardops">')
})

test('a text is replaced in all headers, and an answer without a body gets none', async () => {
  const answer = await answerOf((res) => {
    res.statusCode = 308
    res.setHeader('location', '/__base-path__/batches')
    res.setHeader('link', ['</__base-path__/a>; rel=preload', '</__base-path__/b>; rel=preload'])
    res.end()
  })
  expect(answer.status).toBe(308)
  expect(answer.headers.get('location')).toBe('/rewardops/batches')
  expect(answer.headers.get('link')).toBe(
    '</rewardops/a>; rel=preload, </rewardops/b>; rel=preload',
  )
  expect(await answer.text()).toBe('')
})

test('all other bytes stay unchanged', () => {
  const bytes = Buffer.from([0, 255, 0xc3, 0x28, ...Buffer.from('/__base-path__'), 0x80])
  expect(replacedIn(bytes, '/__base-path__', '')).toEqual(Buffer.from([0, 255, 0xc3, 0x28, 0x80]))
})
