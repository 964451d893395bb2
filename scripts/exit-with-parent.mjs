// Loaded before the entry (node --import) by run.mjs. Its end of the pipe closes when run.mjs ends, however
// it ends: then this process stops as if asked to, and nothing is left behind by a `kill -9` of npm.
import { Socket } from 'node:net'

const fd = Number(process.env.EXIT_WITH_PARENT_FD)
// Not for the children: to them the number means something else, or nothing.
delete process.env.EXIT_WITH_PARENT_FD

if (Number.isInteger(fd) && fd > 2) {
  const pipe = new Socket({ fd, readable: true, writable: false })
  pipe.on('error', () => {})
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'))
  pipe.resume()
  pipe.unref()
}
