/**
 * NODE_OPTIONS loads this file into every Node process and thread of a service (`node --import`), to profile it from
 * outside. Each thread connects to the socket `ACCOUNT_PROFILER_SOCKET`, identifies itself, and sends a CPU profile
 * of the time between the commands `start` and `stop`. The protocol is one JSON value per line in both directions.
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
