import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withoutSecrets } from '../config.ts'
import type { LocalSandbox } from '../contract/sandbox.ts'
import { KeptChild } from '../kept-child.ts'
import type { Logger } from '../log.ts'

const STOP_MS = 3_000

/** What a sandbox process tells its parent once: that it is ready, or why it cannot run programs. */
export type SandboxReport =
  | { ok: true; slots: number }
  | { ok: false; reason: string; remedy: string }

/**
 * The sandbox beside a server or a worker: a process that runs programs for the callers of a Unix socket in a private
 * folder. It starts when it is first needed, because most services score no programs, and is started again when it
 * dies. One that cannot run programs is not started again.
 */
export class SandboxProcess {
  readonly #env: NodeJS.ProcessEnv
  readonly #log: Logger
  readonly #ready = Promise.withResolvers<LocalSandbox>()
  #folder: string | null = null
  #child: KeptChild | null = null

  /** `env`: the environment of the parent. Its secrets are not passed on. */
  constructor(env: NodeJS.ProcessEnv, log: Logger) {
    this.#env = withoutSecrets(env)
    this.#log = log
  }

  /** Starts the process if it has not been started. Resolves when it is ready, or cannot run programs. */
  ready(): Promise<LocalSandbox> {
    if (this.#child === null) this.#start()
    return this.#ready.promise
  }

  async stop(): Promise<void> {
    this.#ready.resolve({ ok: false, reason: 'The service is stopping.', remedy: 'Try again.' })
    await this.#child?.stop(STOP_MS)
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true })
  }

  #start(): void {
    this.#folder = mkdtempSync(join(tmpdir(), 'rewardops-code-'))
    const socketPath = join(this.#folder, 'http.sock')
    let isUsable = true
    this.#child = new KeptChild({
      name: 'sandbox',
      log: this.#log,
      spawn: () =>
        spawn(
          process.execPath,
          [
            '--max-old-space-size=192',
            fileURLToPath(new URL('./start.ts', import.meta.url)),
            '--local',
          ],
          {
            stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
            env: { ...this.#env, REWARDOPS_SANDBOX_SOCKET: socketPath },
          },
        ),
      onStarted: (child) =>
        child.on('message', (report: SandboxReport) => {
          isUsable = report.ok
          this.#ready.resolve(report.ok ? { ...report, socketPath } : report)
        }),
      onDied: () => isUsable,
    })
    this.#child.start()
  }
}
