import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { CliError, EXIT } from '../exit-codes.ts'
import { ServiceClient } from '../service-client.ts'
import { download, downloadParquet } from './download.ts'
import { type ExportTarget, StreamTarget } from './targets.ts'

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

async function serving(
  ...answers: ((req: IncomingMessage, res: ServerResponse) => void)[]
): Promise<{ client: ServiceClient; requests: string[] }> {
  const requests: string[] = []
  const server = createServer((req, res) => {
    if (req.url?.startsWith('/api/trpc/session.get')) {
      res.end(JSON.stringify({ result: { data: { version: '0.1.0', signedIn: true } } }))
      return
    }
    requests.push(new URL(req.url ?? '', 'http://x').search)
    answers[Math.min(requests.length, answers.length) - 1]?.(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = await ServiceClient.connect({
    url: `http://127.0.0.1:${port}`,
    apiKey: null,
    version: '0.1.0',
  })
  stops.push(() => {
    void client.close()
    server.closeAllConnections()
    server.close()
  })
  return { client, requests }
}

class Memory implements ExportTarget {
  readonly before = { rows: 0, lastRow: null }
  text = ''
  async write(bytes: Buffer) {
    this.text += bytes.toString()
  }
  async restart() {
    this.text = ''
    return true
  }
  async finish() {}
  async leave() {
    return null
  }
}

const row = (i: number) => `{"batchId":"b1","index":${i}}\n`
const quiet = { signal: new AbortController().signal, onProgress() {}, onRetry() {} }

const breaksAfter = (from: number, to: number) => (_: IncomingMessage, res: ServerResponse) => {
  res.writeHead(200, { 'x-rewardops-rows': 6 - from })
  let text = ''
  for (let i = from; i < to; i++) text += row(i)
  res.write(`${text}{"batchId":"b1","ind`, () => res.destroy())
}

it('an export continues after the last whole row when the connection breaks inside a row', async () => {
  const { client, requests } = await serving(
    breaksAfter(0, 3),
    breaksAfter(3, 3),
    (_, res) =>
      void res.writeHead(503).end(
        JSON.stringify({
          error: { message: 'Busy.', data: { reason: 'busy', hint: 'Again.', retryAfterMs: 1 } },
        }),
      ),
    (_, res) => void res.writeHead(200, { 'x-rewardops-rows': 3 }).end(row(3) + row(4) + row(5)),
  )
  const target = new Memory()
  const totals: (number | null)[] = []
  const done = await download(
    client,
    { format: 'jsonl', filter: new URLSearchParams({ run: 'r' }) },
    target,
    {
      ...quiet,
      retryForMs: 60_000,
      onProgress: (_, total) => totals.push(total),
    },
  )
  expect(done).toEqual({ rows: 6, before: 0 })
  expect(target.text).toBe([0, 1, 2, 3, 4, 5].map(row).join(''))
  expect(requests).toEqual([
    '?format=jsonl&run=r',
    '?format=jsonl&run=r&after=b1-2',
    '?format=jsonl&run=r&after=b1-2',
    '?format=jsonl&run=r&after=b1-2',
  ])
  expect(new Set(totals)).toEqual(new Set([6]))
})

it('a CSV export that breaks before its first row has one header', async () => {
  const header = 'batchId,index\n'
  const { client, requests } = await serving(
    (_, res) => {
      res.writeHead(200, { 'x-rewardops-rows': 2 })
      res.write(`${header}b1,`, () => res.destroy())
    },
    (_, res) => void res.writeHead(200, { 'x-rewardops-rows': 2 }).end(`${header}b1,0\nb1,1\n`),
  )
  const target = new Memory()
  const query = { filter: new URLSearchParams({ run: 'r' }), columns: ['batchId', 'index'] }
  const done = await download(client, { format: 'csv', ...query }, target, {
    ...quiet,
    retryForMs: 60_000,
  })
  expect(done).toEqual({ rows: 2, before: 0 })
  expect(target.text).toBe(`${header}b1,0\nb1,1\n`)
  expect(new Set(requests).size).toBe(1)
})

it('a CSV export without rows has a header', async () => {
  const { client } = await serving((_, res) => void res.writeHead(200).end('batchId,index\n'))
  const target = new Memory()
  const query = { filter: new URLSearchParams({ run: 'r' }), columns: ['batchId', 'index'] }
  const done = await download(client, { format: 'csv', ...query }, target, {
    ...quiet,
    retryForMs: 60_000,
  })
  expect(done).toEqual({ rows: 0, before: 0 })
  expect(target.text).toBe('batchId,index\n')
})

it('a Parquet export starts over when the connection breaks', async () => {
  const { client, requests } = await serving(
    (_, res) => {
      res.writeHead(200)
      res.write('PAR1 half', () => res.destroy())
    },
    (_, res) => void res.writeHead(200).end('PAR1 whole PAR1'),
  )
  const target = new Memory()
  const query = { format: 'parquet' as const, filter: new URLSearchParams({ run: 'r' }) }
  await downloadParquet(client, query, target, { ...quiet, retryForMs: 60_000 })
  expect(target.text).toBe('PAR1 whole PAR1')
  expect(requests).toEqual(['?format=parquet&run=r', '?format=parquet&run=r'])
})

it('a Parquet export to stdout fails when the connection breaks', async () => {
  const { client } = await serving((_, res) => {
    res.writeHead(200)
    res.write('PAR1 half', () => res.destroy())
  })
  const written = new StreamTarget({ write: () => true })
  const query = { format: 'parquet' as const, filter: new URLSearchParams({ run: 'r' }) }
  const wanted = downloadParquet(client, query, written, { ...quiet, retryForMs: 60_000 })
  await expect(wanted).rejects.toMatchObject({ exitCode: EXIT.unreachable })
})

it('an export fails when the service stays unreachable', async () => {
  const { client } = await serving(breaksAfter(0, 1))
  const wanted = download(
    client,
    { format: 'jsonl', filter: new URLSearchParams({ batch: 'b1' }) },
    new Memory(),
    {
      ...quiet,
      retryForMs: 0,
    },
  )
  await expect(wanted).rejects.toMatchObject({ exitCode: EXIT.unreachable })
})

it('an export ends at once when its file cannot be written', async () => {
  const { client, requests } = await serving(
    (_, res) => void res.writeHead(200, { 'x-rewardops-rows': 1 }).end(row(0)),
  )
  class Full extends Memory {
    override write = () =>
      Promise.reject(new CliError(EXIT.badInput, 'samples.jsonl cannot be written'))
  }
  const query = { format: 'jsonl' as const, filter: new URLSearchParams({ batch: 'b1' }) }
  const wanted = download(client, query, new Full(), { ...quiet, retryForMs: 5_000 })
  await expect(wanted).rejects.toMatchObject({ exitCode: EXIT.badInput })
  expect(requests).toHaveLength(1)
})

it('a refused export is not retried', async () => {
  const { client, requests } = await serving(
    (_, res) =>
      void res.writeHead(404).end(
        JSON.stringify({
          error: {
            message: 'There is no batch b1.',
            data: { reason: 'batch_not_found', hint: '' },
          },
        }),
      ),
  )
  const wanted = download(
    client,
    { format: 'jsonl', filter: new URLSearchParams({ batch: 'b1' }) },
    new Memory(),
    {
      ...quiet,
      retryForMs: 60_000,
    },
  )
  await expect(wanted).rejects.toMatchObject({
    exitCode: EXIT.refused,
    message: expect.stringContaining('There is no batch b1.'),
  })
  expect(requests).toHaveLength(1)
})
