import { createServer as createHttp, type RequestListener } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { FULL, itInFullRun } from '../../testkit/service/full-run.ts'
import { EXIT } from './exit-codes.ts'
import { runCli } from './testing/run-cli.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()))
})

async function listening(server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const answering = (handler: RequestListener) => listening(createHttp(handler) as unknown as Server)
const session = (data: object) =>
  answering((_, res) => res.end(JSON.stringify({ result: { data } })))

async function refused(url: string, env: Record<string, string> = {}) {
  const run = await runCli(['wait', 'b1'], { REWARDOPS_URL: url, ...env })
  expect(run.stdout).toBe('')
  expect(run.stderr.trim().split('\n')).toHaveLength(1)
  expect(run.stderr).not.toMatch(/ at .*\.ts:|undefined|\[object/)
  return run
}

describe('an unusable service is reported in one line with its exit code', () => {
  it('no server listens', async () => {
    const run = await refused('http://127.0.0.1:9')
    expect(run.code).toBe(EXIT.unreachable)
    expect(run.stderr).toMatch(/at http:\/\/127\.0\.0\.1:9: the connection was refused.*npm start/)
  })

  itInFullRun('a host that does not exist', async () => {
    const run = await refused('http://no-such-host.invalid:3000')
    expect(run.code).toBe(EXIT.unreachable)
    expect(run.stderr).toContain('there is no host "no-such-host.invalid"')
  })

  itInFullRun('a server that accepts the connection and never answers', async () => {
    const run = await refused(await listening(createServer(() => {})))
    expect(run.code).toBe(EXIT.unreachable)
    expect(run.stderr).toContain('no answer within 4 s')
  })

  itInFullRun('a server that does not speak HTTP', async () => {
    const url = await listening(createServer((socket) => void socket.end('220 ready\r\n')))
    const run = await refused(url)
    expect(run.code).toBe(EXIT.unreachable)
    expect(run.stderr).toContain('the answer is not HTTP')
  })

  it('another service', async () => {
    const page = await refused(await answering((_, res) => res.end('<html>hello</html>')))
    expect(page.code).toBe(EXIT.unreachable)
    expect(page.stderr).toContain(
      'is not a rewardops service: it answered HTTP 200 "<html>hello</html>"',
    )
    if (!FULL) return
    const api = await refused(
      await answering((_, res) => res.writeHead(404).end('{"detail":"Not Found"}')),
    )
    expect(api.code).toBe(EXIT.unreachable)
    expect(api.stderr).toContain('HTTP 404')
    const trpc = await refused(await session({ user: 'x' }))
    expect(trpc.code).toBe(EXIT.unreachable)
  })

  it('another version', async () => {
    const run = await refused(await session({ version: '99.2.0', signedIn: true }))
    expect(run.code).toBe(EXIT.refused)
    expect(run.stderr).toMatch(/is rewardops 99\.2\.0 and this command is \d/)
  })

  it('a missing or wrong key', async () => {
    const url = await session({ version: '0.1.0', signedIn: false })
    const none = await refused(url)
    expect(none.code).toBe(EXIT.refused)
    expect(none.stderr).toContain('needs a key: set REWARDOPS_API_KEY')
    const wrong = await refused(url, { REWARDOPS_API_KEY: 'not-the-key' })
    expect(wrong.stderr).toContain('refused the key of REWARDOPS_API_KEY')
    expect(wrong.stderr).not.toContain('not-the-key')
  })

  itInFullRun('an invalid URL', async () => {
    const run = await refused('localhost:3000')
    expect(run.code).toBe(EXIT.badInput)
    expect((await refused('where')).stderr).toContain('"where" is not a URL')
  })

  it('--json prints the error on stdout', async () => {
    const { code, stdout } = await runCli(['wait', 'b1', '--json', '--url', 'http://127.0.0.1:9'])
    expect(code).toBe(EXIT.unreachable)
    expect(JSON.parse(stdout)).toEqual({
      error: { message: expect.stringContaining('refused'), reason: null, exitCode: 3 },
    })
  })
})
