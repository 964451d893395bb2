// Loaded before the entry (node --import) by run.mjs. The pipe closes when run.mjs ends for any reason; this process then
// stops as on SIGTERM, so a `kill -9` of npm leaves nothing behind.
import { Socket } from 'node:net'

const fd = Number(process.env.EXIT_WITH_PARENT_FD)
// Child processes must not inherit the descriptor's number, which means nothing to them.
delete process.env.EXIT_WITH_PARENT_FD

if (Number.isInteger(fd) && fd > 2) {
  const pipe = new Socket({ fd, readable: true, writable: false })
  pipe.on('error', () => {})
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'))
  pipe.resume()
  pipe.unref()
}
