import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { markOf } from './processes.ts'

it.skipIf(process.platform !== 'linux')(
  'a process without free file descriptors does not mistake a running process for a dead one',
  () => {
    const own = JSON.stringify(markOf(process.pid))
    const script = `
      import { openSync } from 'node:fs'
      import { inspectProcess, isRunning } from ${JSON.stringify(new URL('./processes.ts', import.meta.url).href)}
      const running = ${own}
      const seen = [isRunning(running), isRunning({ ...running, startedAt: 'before' })]
      let full = null
      while (full === null) try { openSync('/dev/null') } catch (error) { full = error.code }
      let thrown = null
      try { inspectProcess(running.pid) } catch (error) { thrown = error.code }
      seen.push(full, thrown, isRunning(running), isRunning({ ...running, pid: 2 ** 30 }))
      process.stdout.write(JSON.stringify(seen))`
    const limited = 'ulimit -n 64 && exec "$0" --input-type=module --eval "$1"'
    const seen = execFileSync('/bin/sh', ['-c', limited, process.execPath, script], {
      encoding: 'utf8',
    })
    expect(JSON.parse(seen)).toEqual([true, false, 'EMFILE', 'EMFILE', true, false])
  },
)
