import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { loadConfig, loadSandboxHandover } from '../config.ts'
import { createLogger } from '../log.ts'
import { stopRequests } from '../stop-request.ts'
import { sandboxServer } from './http.ts'
import { findPython } from './python-home.ts'
import { PythonRuns } from './python-runs.ts'
import type { SandboxReport } from './sandbox-process.ts'

/**
 * Runs a sandbox until it is stopped. The local sandbox of a server or a worker listens on a Unix socket, any other on
 * a port.
 */
async function main(): Promise<void> {
  const { sandbox, logLevel } = loadConfig()
  const { socketPath } = loadSandboxHandover()
  const log = createLogger(logLevel, 'sandbox')
  // All files are in one folder, so the parent can remove everything if the sandbox is killed.
  const folder =
    socketPath === null ? mkdtempSync(join(tmpdir(), 'rewardops-code-')) : dirname(socketPath)
  const removeFolder = () => rmSync(folder, { recursive: true, force: true })
  stopRequests.whileStarting(async () => removeFolder())
  const refuse = (reason: string, remedy: string) => {
    removeFolder()
    // A parent process reports the problem itself, in a refused request or in a worker's log.
    if (!process.send) log.error({ reason, remedy }, 'programs cannot be run here')
    report({ ok: false, reason, remedy }, () => process.exit(1))
  }
  const found = await findPython(sandbox.python)
  if (!found.ok) return refuse(found.reason, found.remedy)
  const { slots } = sandbox
  // The user that runs programs must be able to enter this folder to reach the folder `python` in it.
  chmodSync(folder, 0o711)
  const runs = new PythonRuns({ ...found, folder: join(folder, 'python'), idle: slots, log })
  stopRequests.whileStarting(() => runs.close())
  try {
    await runs.start()
  } catch (error) {
    await runs.close()
    return refuse((error as Error).message, 'See the log of the sandbox.')
  }
  const server = sandboxServer(runs, slots, log)
  if (socketPath === null) server.listen(sandbox.port, sandbox.host)
  else {
    // A killed sandbox leaves its socket behind.
    rmSync(socketPath, { force: true })
    server.listen(socketPath)
  }
  await once(server, 'listening')
  if (socketPath !== null) chmodSync(socketPath, 0o600)
  const at = socketPath ?? `http://${sandbox.host}:${(server.address() as { port: number }).port}`
  log.info({ at, slots, python: runs.version }, 'sandbox ready')
  report({ ok: true, slots })
  let isStopping = false
  stopRequests.serve((why) => {
    if (isStopping) return
    isStopping = true
    log.info({ why }, 'sandbox stopping')
    server.close()
    server.closeAllConnections()
    void runs.close().then(() => {
      removeFolder()
      process.exit(0)
    })
  })
}

function report(message: SandboxReport, then = () => {}): void {
  if (process.send) process.send(message, then)
  else then()
}

main().catch((error: Error) => {
  if (stopRequests.signal.aborted) return
  process.stderr.write(`sandbox could not start: ${error.message}\n`)
  process.exit(1)
})
