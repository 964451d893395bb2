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
/** The start fails after this many processes have ended without a report. */
const MAX_STARTS = 3
/**
 * Time after which a sandbox that could not run programs is tried again, ms, because an admin may have installed a
 * missing program.
 */
export const TRY_AGAIN_MS = 30_000

const STOPPING = {
  ok: false,
  reason: 'The service is stopping.',
  remedy: 'Try again later.',
} as const

/** The only message of a sandbox process to its parent, sent when it is ready or cannot run programs. */
export type SandboxReport =
  | { ok: true; slots: number }
  | { ok: false; reason: string; remedy: string }

/**
 * The local sandbox of a server or a worker: a process that runs programs for the callers of a Unix socket in a private
 * folder. It starts when it is first needed, because most services score no programs, and restarts when it dies.
 */
export class SandboxProcess {
  readonly #env: NodeJS.ProcessEnv
  readonly #log: Logger
  #current: Promise<LocalSandbox> | null = null
  #failedAt = Number.POSITIVE_INFINITY
  #folder: string | null = null
  #child: KeptChild | null = null
  /** Resolves the calls of `ready` that still wait for the start when the service stops. */
  #giveUp: () => void = () => {}
  #isStopping = false

  /** `env`: the environment of the parent. Its secrets are not passed on. */
  constructor(env: NodeJS.ProcessEnv, log: Logger) {
    this.#env = withoutSecrets(env)
    this.#log = log
  }

  async ready(): Promise<LocalSandbox> {
    if (this.#isStopping) return STOPPING
    if (performance.now() - this.#failedAt > TRY_AGAIN_MS) this.#current = null
    this.#current ??= this.#start()
    return this.#current
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#giveUp()
    await this.#child?.stop(STOP_MS)
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true })
  }

  #start(): Promise<LocalSandbox> {
    const { promise, resolve } = Promise.withResolvers<LocalSandbox>()
    const folder = mkdtempSync(join(tmpdir(), 'rewardops-code-'))
    const socketPath = join(folder, 'http.sock')
    this.#folder = folder
    this.#failedAt = Number.POSITIVE_INFINITY
    this.#giveUp = () => resolve(STOPPING)
    let isUsable: boolean | null = null
    let starts = 0
    const fail = (reason: string, remedy: string) => {
      isUsable = false
      this.#failedAt = performance.now()
      resolve({ ok: false, reason, remedy })
    }
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
          if (!report.ok) return fail(report.reason, report.remedy)
          isUsable = true
          resolve({ ...report, socketPath })
        }),
      onDied: () => {
        starts++
        if (isUsable === null && starts >= MAX_STARTS) {
          fail('The process of the sandbox ends when it starts.', 'See the log of the service.')
        }
        if (isUsable === false) rmSync(folder, { recursive: true, force: true })
        return isUsable !== false
      },
    })
    this.#child.start()
    return promise
  }
}
