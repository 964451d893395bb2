import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { environment } from '../../testkit/service/service.ts'
import { workerEnvironment } from '../config.ts'

/** Tests a worker that waits for a database that accepts connections but never answers. */

const START = fileURLToPath(new URL('./start.ts', import.meta.url))

let database: Server
let sockets: Socket[]
let worker: ChildProcess
beforeEach(async () => {
  sockets = []
  database = createServer((socket) => {
    socket.on('error', () => {})
    sockets.push(socket)
  }).listen(0, '127.0.0.1')
  await once(database, 'listening')
})
afterEach(() => {
  worker.kill('SIGKILL')
  for (const socket of sockets) socket.destroy()
  database.close()
})

async function waiting(): Promise<void> {
  const { port } = database.address() as AddressInfo
  const databaseUrl = `postgresql://nobody@127.0.0.1:${port}/none`
  const { env, input } = workerEnvironment(environment({}), { databaseUrl, routerAddress: '' })
  worker = spawn(process.execPath, [START, '--local'], {
    stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
    env,
  })
  worker.stdin?.end(input)
  await once(database, 'connection')
}

test('ends with its server during the wait', async () => {
  await waiting()
  worker.disconnect()
  expect(await once(worker, 'exit')).toEqual([0, null])
})

test('ends if its server exited before the channel was read', async () => {
  const { port } = database.address() as AddressInfo
  worker = spawn(process.execPath, [START, '--local'], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: environment({ DATABASE_URL: `postgresql://nobody@127.0.0.1:${port}/none` }),
  })
  worker.disconnect()
  expect(await once(worker, 'exit')).toEqual([0, null])
})

test('stops on request with exit code 0', async () => {
  await waiting()
  worker.kill('SIGTERM')
  expect(await once(worker, 'exit')).toEqual([0, null])
})

itInFullRun('continues while its server is stopped by SIGSTOP', async () => {
  await waiting()
  // A server stopped by SIGSTOP does nothing, but its channel to the worker stays open.
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  expect([worker.exitCode, worker.signalCode]).toEqual([null, null])
})
