import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { environment } from '../../testkit/service/service.ts'

/** A worker that waits for a database which takes connections and never answers. */

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

/** Starts a worker as its server does, and waits until it asks the database something. */
async function waiting(): Promise<void> {
  const { port } = database.address() as AddressInfo
  worker = spawn(process.execPath, [START, '--local'], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: environment({
      DATABASE_URL: `postgresql://nobody@127.0.0.1:${port}/none`,
      REWARDOPS_WORKER_LOCAL: '1',
    }),
  })
  await once(database, 'connection')
}

test('ends with its server, though the wait is not over', async () => {
  await waiting()
  worker.disconnect()
  expect(await once(worker, 'exit')).toEqual([0, null])
})

test('ends with a server that was gone before it heard of its end', async () => {
  const { port } = database.address() as AddressInfo
  worker = spawn(process.execPath, [START, '--local'], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: environment({ DATABASE_URL: `postgresql://nobody@127.0.0.1:${port}/none` }),
  })
  worker.disconnect()
  expect(await once(worker, 'exit')).toEqual([0, null])
})

test('stops when it is told to, with exit code 0', async () => {
  await waiting()
  worker.kill('SIGTERM')
  expect(await once(worker, 'exit')).toEqual([0, null])
})

test('goes on while its server is halted', async () => {
  await waiting()
  // What a halted server does: nothing. Its channel stays open.
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  expect([worker.exitCode, worker.signalCode]).toEqual([null, null])
})
