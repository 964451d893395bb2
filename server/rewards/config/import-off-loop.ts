import { Worker } from 'node:worker_threads'
import type { ImportedConfigDto } from '../../contract/rewards.ts'
import { RewardOpsError } from '../../errors.ts'

/** Maximum number of concurrent imports. A click in the dashboard starts one import, so few run at the same time. */
const MAX_IMPORTS = 4
const HEAP_MB = 256

interface ImportLimits {
  /**
   * Maximum processor time of the thread. verl's composed configuration takes 20 ms; aliases nested 13 levels deep take
   * 2.3 s.
   */
  cpuMs: number
  waitMs: number
  lookMs: number
}
const LIMITS: ImportLimits = { cpuMs: 10_000, waitMs: 60_000, lookMs: 250 }

let running = 0

/**
 * Runs `importConfig` in a separate thread, which is terminated when it takes too long. On the server's event loop, a
 * short text of nested aliases would block all requests.
 * @param address the service's URL, which the result's command for registering a function contains
 * @throws RewardOpsError `invalid_input` if the text takes too much processor time or memory; `busy` if too many
 * imports run, or the machine is too busy
 */
export async function importOffLoop(
  text: string,
  address: string,
  { cpuMs, waitMs, lookMs }: ImportLimits = LIMITS,
): Promise<ImportedConfigDto> {
  if (running >= MAX_IMPORTS) {
    throw new RewardOpsError('busy', `${MAX_IMPORTS} configurations are being read already.`, {
      retryAfterMs: 1_000,
    })
  }
  running++
  const thread = new Worker(new URL('./import-thread.ts', import.meta.url), {
    workerData: { text, address },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  })
  const timers: NodeJS.Timeout[] = []
  try {
    return await new Promise<ImportedConfigDto>((resolve, reject) => {
      const refuse = (why: string) =>
        reject(
          new RewardOpsError('invalid_input', `The import was stopped: ${why}.`, {
            hint: 'Remove the sections that do not concern rewards, and nested aliases.',
          }),
        )
      const look = async () => {
        // `cpuUsage` rejects before the thread runs and after it has ended.
        const used = await thread.cpuUsage().catch(() => null)
        if (used !== null && (used.user + used.system) / 1_000 > cpuMs) {
          refuse(`reading it took more than ${cpuMs / 1_000} s of processor time`)
        }
      }
      const late = () =>
        reject(
          new RewardOpsError('busy', `The configuration was not read within ${waitMs} ms.`, {
            retryAfterMs: 5_000,
          }),
        )
      timers.push(
        setInterval(() => void look(), lookMs),
        setTimeout(late, waitMs),
      )
      thread.once('message', resolve)
      thread.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ERR_WORKER_OUT_OF_MEMORY'
          ? refuse(`it took more than ${HEAP_MB} MB`)
          : reject(error),
      )
      thread.once('exit', (code) => reject(new Error(`the import thread exited with code ${code}`)))
    })
  } finally {
    for (const timer of timers) clearTimeout(timer)
    running--
    await thread.terminate()
  }
}
