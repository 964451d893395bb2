import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { sample } from '../../../testkit/service/rollouts.ts'
import { Service } from '../../../testkit/service/service.ts'
import { createRewardOpsClient, RewardOpsClientError } from '../src/index.ts'
import { CLIENT_VERSION, isCompatible } from '../src/reach.ts'
import { refusal, result, type StandIn, startStandIn } from './stand-in.ts'

let keyed: Service
const standIns: StandIn[] = []

beforeAll(async () => {
  keyed = await Service.start({
    env: { REWARDOPS_WORKERS: '0', REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB' },
  })
})

afterEach(async () => {
  await Promise.all(standIns.splice(0).map((one) => one.close()))
})

afterAll(async () => {
  await keyed?.stop().finally(() => keyed.destroy())
})

async function standIn(...args: Parameters<typeof startStandIn>): Promise<StandIn> {
  const one = await startStandIn(...args)
  standIns.push(one)
  return one
}

async function troubleOf(url: string, apiKey?: string): Promise<RewardOpsClientError> {
  const client = createRewardOpsClient({ url, apiKey, onTrouble: () => {} })
  const error = await client.submit({ run: 'r', step: 1, samples: [sample()] }).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(RewardOpsClientError)
  const failure = error as RewardOpsClientError
  expect(failure.message).toMatch(/^[^\n]{20,200}\.$/)
  return failure
}

describe('an error has one sentence', () => {
  it('when no server listens, or the host is unknown', async () => {
    const server: Server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    await new Promise((resolve) => server.close(resolve))
    expect(await troubleOf(`http://127.0.0.1:${port}`)).toMatchObject({
      reason: 'unreachable',
      message: `No rewardops service answers at http://127.0.0.1:${port}: nothing listens there.`,
    })
    expect(await troubleOf('http://no-such-host.invalid:3000')).toMatchObject({
      reason: 'unreachable',
      message: expect.stringMatching(/the host name (is not known|could not be looked up)\.$/),
    })
  })

  it('when the server is silent, closes the connection, or does not speak HTTP', async () => {
    for (const [said, expected] of [
      [null, 'no answer within 2 s'],
      ['', 'the connection was closed'],
      ['220 mail.example ESMTP\r\n', 'the answer is not HTTP'],
    ] as const) {
      const server = createServer((socket) => {
        socket.on('error', () => {})
        if (said !== null) socket.end(said)
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as { port: number }
      const { reason, message } = await troubleOf(`http://127.0.0.1:${port}`)
      server.close()
      expect(reason).toBe('unreachable')
      expect(message).toContain(expected)
    }
  })

  it('when the server is not rewardops, redirects, has another path, or lacks HTTPS', async () => {
    const page = await standIn((_, res) => {
      res.setHeader('content-type', 'text/html; charset=utf-8')
      res.end('<h1>It works</h1>')
    }, null)
    expect(await troubleOf(page.url)).toMatchObject({
      reason: 'not_rewardops',
      message: `The server at ${page.url} is not a rewardops service (HTTP 200, text/html).`,
    })
    const moved = await standIn(
      (_, res) => res.writeHead(301, { location: 'https://x.y/' }).end(),
      null,
    )
    expect(await troubleOf(moved.url)).toMatchObject({
      reason: 'not_rewardops',
      message: `${moved.url} redirects to https://x.y/.`,
    })
    expect((await troubleOf(page.url.replace('http:', 'https:'))).message).toContain('try http://')
    expect(await troubleOf(`${keyed.url}/api/trpc`, 'pT4wZ81mQx7RkV0s9LcB')).toMatchObject({
      reason: 'not_rewardops',
      message: `The rewardops service is at ${keyed.url}, not under /api/trpc.`,
    })
  })

  it('when the key is missing or wrong, or the version differs', async () => {
    expect(await troubleOf(keyed.url)).toMatchObject({
      reason: 'unauthorized',
      message: `The rewardops service at ${keyed.url} requires an API key.`,
    })
    expect(await troubleOf(keyed.url, 'wrong-key')).toMatchObject({
      reason: 'unauthorized',
      message: `The rewardops service at ${keyed.url} rejected the API key.`,
      hint: expect.stringContaining('one of its API keys'),
    })
    const session = { auth: 'open', signedIn: true, version: '0.9.2', address: '' }
    const newer = await standIn((_, res) => result(res, {}), session)
    expect(await troubleOf(newer.url)).toMatchObject({
      reason: 'version_mismatch',
      message: `The rewardops service at ${newer.url} is version 0.9.2, and this client is for ${CLIENT_VERSION}.`,
    })
    expect(newer.seen).toEqual([])
  })

  it('before anything is sent, when the URL is invalid', () => {
    for (const url of ['', 'localhost:3000', '127.0.0.1:3000', 'ftp://x']) {
      expect(() => createRewardOpsClient({ url })).toThrow(
        expect.objectContaining({ reason: 'invalid_url', message: expect.stringContaining(url) }),
      )
    }
  })

  it('the version matches the service and the package', () => {
    const at = (path: string) =>
      (JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string })
        .version
    expect(at('../package.json')).toBe(CLIENT_VERSION)
    expect(isCompatible(at('../../../package.json'), CLIENT_VERSION)).toBe(true)
    expect(isCompatible('1.9.0', '1.2.3')).toBe(true)
    expect(isCompatible('2.0.0', '1.2.3')).toBe(false)
    expect(isCompatible('0.1.7', '0.1.0')).toBe(true)
    expect(isCompatible('0.2.0', '0.1.0')).toBe(false)
  })
})

describe('a temporary failure', () => {
  const accepted = { batchId: 'b1', accepted: 1, groups: 1, duplicate: false }
  const batch = { run: 'r', step: 1, samples: [sample()] }

  it('is retried after the given time with the same key', async () => {
    const at: number[] = []
    const one = await standIn((_, res, times) => {
      at.push(performance.now())
      if (times < 3) refusal(res, 503, 'busy', 'Two large bodies are being taken in.', 300)
      else result(res, accepted)
    })
    const reports: string[] = []
    const client = createRewardOpsClient({ url: one.url, onTrouble: (s) => reports.push(s) })
    expect(await client.submit(batch)).toEqual(accepted)
    const keys = one.seen.map((seen) => (seen.body as { idempotencyKey: string }).idempotencyKey)
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect((at[1] as number) - (at[0] as number)).toBeGreaterThanOrEqual(299)
    // Back pressure is not an outage, so nothing is reported.
    expect(reports).toEqual([])
  })

  it.each([
    ['an overload', 'busy', 503],
    ['a refusal', 'not_found', 404],
  ])('is reported again when it recurs after %s', async (_, reason, status) => {
    const one = await standIn((_, res, times) => {
      if (times === 2) refusal(res, status, reason, 'An answer.', 10)
      else if (times < 4) refusal(res, 503, 'database_unavailable', 'No database.', 10)
      else result(res, {})
    })
    const reports: string[] = []
    const client = createRewardOpsClient({ url: one.url, onTrouble: (s) => reports.push(s) })
    const get = () => client.api.batches.get.query({ batchId: 'b1' })
    if (status === 404) await expect(get()).rejects.toMatchObject({ reason })
    await get()
    expect(reports).toHaveLength(2)
  })

  it('of the connection is retried only if the call is repeatable', async () => {
    const one = await standIn((seen, res, times) => {
      if (times === 1 || seen.path.endsWith('demo.load')) res.destroy()
      else result(res, accepted)
    })
    const client = createRewardOpsClient({ url: one.url, onTrouble: () => {} })
    expect(await client.submit({ ...batch, idempotencyKey: 'mine' })).toEqual(accepted)
    expect(
      one.seen.map((seen) => (seen.body as { idempotencyKey: string }).idempotencyKey),
    ).toEqual(['mine', 'mine'])
    one.seen.length = 0
    await expect(client.api.demo.load.mutate()).rejects.toMatchObject({
      reason: 'unreachable',
      message: expect.stringContaining('the connection was closed'),
    })
    expect(one.seen).toHaveLength(1)
    // Without an idempotency key, a retry could create a second batch.
    one.seen.length = 0
    const fresh = await standIn((_, res) => res.destroy())
    const other = createRewardOpsClient({ url: fresh.url, onTrouble: () => {} })
    await expect(other.api.batches.submit.mutate(batch)).rejects.toMatchObject({
      reason: 'unreachable',
    })
    expect(fresh.seen).toHaveLength(1)
  })

  it('of the database is retried until outageMs has passed', async () => {
    const one = await standIn((_, res) =>
      refusal(res, 503, 'database_unavailable', 'The database is not answering.', 50),
    )
    const reports: string[] = []
    const client = createRewardOpsClient({
      url: one.url,
      outageMs: 400,
      onTrouble: (sentence) => reports.push(sentence),
    })
    await expect(client.wait('b1')).rejects.toMatchObject({
      reason: 'database_unavailable',
      message: 'The database is not answering.',
    })
    expect(one.seen.length).toBeGreaterThan(2)
    expect(reports).toEqual(['The database is not answering. Retrying for 0 s.'])
  })

  it('begins after the last answer of a busy service', async () => {
    const one = await standIn((_, res, times) => {
      if (times < 3) refusal(res, 503, 'busy', 'Two large bodies are being taken in.', 700)
      else if (times === 3) res.destroy()
      else result(res, accepted)
    })
    const client = createRewardOpsClient({ url: one.url, outageMs: 1_200, onTrouble: () => {} })
    expect(await client.submit(batch)).toEqual(accepted)
    expect(one.seen).toHaveLength(4)
  })

  it('does not include a refused call', async () => {
    const one = await standIn((_, res) => refusal(res, 400, 'invalid_input', 'step: is missing'))
    const client = createRewardOpsClient({ url: one.url })
    await expect(client.submit(batch)).rejects.toMatchObject({
      reason: 'invalid_input',
      message: 'step: is missing',
      hint: 'h',
      requestId: 'r-1',
    })
    expect(one.seen).toHaveLength(1)
  })
})
