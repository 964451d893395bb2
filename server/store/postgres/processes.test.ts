import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startEmbeddedPostgres } from './embedded.ts'
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

it('a start waits longer for the service that it replaces than that one drains', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'owned-'))
  const owner = spawn('sleep', ['60'])
  try {
    writeFileSync(join(dataDir, 'postgres.owner'), JSON.stringify(markOf(owner.pid!)))
    const cancelled = new AbortController()
    const said: { owner: number; waitMs: number }[] = []
    const warn = (fields: (typeof said)[number]) => {
      said.push(fields)
      cancelled.abort()
    }
    const { signal } = cancelled
    await expect(startEmbeddedPostgres({ dataDir, log: { warn } as never, signal })).rejects.toBe(
      signal.reason,
    )
    expect(said).toEqual([{ owner: owner.pid, waitMs: expect.any(Number) }])
    // A service drains for at most 8 s.
    expect(said[0]?.waitMs).toBeGreaterThan(8_000)
  } finally {
    owner.kill()
    rmSync(dataDir, { recursive: true })
  }
})
