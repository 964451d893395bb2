import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { createExport, type ExportSources } from './export.ts'

const MAX_EXPORTS = 8
const database = testDatabaseForFile()
let db: Database

beforeAll(async () => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 2, name: 'test' })
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  await db.adhoc(
    `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 1, 'train', 'running', true, '{}', 'test', 1, 1, current_date)`,
  )
  await db.adhoc("insert into sample_group (batch_id, no, uid, received) values (1, 0, 'g', 1)")
  await db.adhoc(
    "insert into sample (batch_id, idx, group_no, data_source) values (1, 0, 0, 'test')",
  )
})
afterAll(() => db.close())

it('clients that leave before their export begins do not count as running exports', async () => {
  let leaving = MAX_EXPORTS
  const requests: IncomingMessage[] = []
  const onExport = createExport({
    db,
    access: { admit: () => ({ ended: new AbortController().signal }) },
    scopes: {
      async check() {
        if (leaving === 0) return
        const { socket } = requests.at(-1) as IncomingMessage
        socket.destroy()
        await once(socket, 'close')
      },
    },
    readiness: { databaseLost: false },
  } as unknown as ExportSources)
  const outcomes: Promise<void>[] = []
  const server = createServer((req, res) => {
    requests.push(req)
    outcomes.push(onExport(req, res).catch((error) => void res.writeHead(503).end(error.reason)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/export/samples?batch=b1&columns=index`
  try {
    for (; leaving > 0; leaving--) {
      const left = request(url, { agent: false }).end()
      await once(left, 'error')
    }
    const answer = await fetch(url)
    expect([answer.status, await answer.text()]).toEqual([200, '{"index":0}\n'])
    await Promise.all(outcomes)
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
