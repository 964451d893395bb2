/**
 * Loaded into every Node process and thread of a service (`node --import`, by NODE_OPTIONS) to profile it from outside:
 * each thread connects to the socket in `SOCKET_VARIABLE`, identifies itself, and takes a CPU profile from `start` to
 * `stop`, which it then sends. The protocol is one JSON value per line in both directions.
 */
import { Session } from 'node:inspector'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { isMainThread } from 'node:worker_threads'

const path = process.env.ACCOUNT_PROFILER_SOCKET
if (path) {
  const session = new Session()
  session.connect()
  const socket = connect(path)
  socket.unref()
  socket.on('error', () => {})
  const send = (message: unknown) => socket.write(`${JSON.stringify(message)}\n`)
  send({ pid: process.pid, isMainThread, script: process.argv[1] ?? '' })
  const lines = createInterface({ input: socket })
  lines.on('error', () => {})
  lines.on('line', (line) => {
    const { command, intervalUs } = JSON.parse(line) as { command: string; intervalUs: number }
    if (command === 'start') {
      session.post('Profiler.enable')
      session.post('Profiler.setSamplingInterval', { interval: intervalUs })
      session.post('Profiler.start', () => send({ started: true }))
    } else {
      session.post('Profiler.stop', (error, answer) =>
        send({ profile: error ? null : answer.profile }),
      )
    }
  })
}
