// run.mjs and rewardops.mjs load this module before the entry (node --import). EXIT_WITH_PARENT_FD is a pipe from the
// launcher, which closes when the launcher ends for any reason. This process then gets SIGTERM, so a `kill -9` of the
// launcher leaves no process behind.
import { Socket } from 'node:net'

const fd = Number(process.env.EXIT_WITH_PARENT_FD)
// Child processes must not inherit the variable, because they do not inherit the descriptor.
delete process.env.EXIT_WITH_PARENT_FD

if (Number.isInteger(fd) && fd > 2) {
  const pipe = new Socket({ fd, readable: true, writable: false })
  pipe.on('error', () => {})
  pipe.on('close', () => process.kill(process.pid, 'SIGTERM'))
  pipe.resume()
  pipe.unref()
}
