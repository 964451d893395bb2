import { Worker } from 'node:worker_threads'
import { RewardOpsError } from '../../errors.ts'
import type { ImportedConfigDto } from '../../wire/rewards.ts'

/** The composed configuration takes 20 ms; 13 aliases of aliases took 2.3 s. */
const DEADLINE_MS = 10_000
/** Imports at once; each is a click of somebody. */
const AT_ONCE = 4
const HEAP_MB = 256

let running = 0

/**
 * `importConfig` in a thread of its own, which is ended when it takes too long: a short text of aliases within aliases
 * would otherwise hold up every trainer. @throws RewardOpsError `busy`, `invalid_input`
 */
export async function importOffLoop(text: string): Promise<ImportedConfigDto> {
  if (running >= AT_ONCE) {
    throw new RewardOpsError('busy', `${AT_ONCE} configurations are being read already.`, {
      retryAfterMs: 1_000,
    })
  }
  running++
  const thread = new Worker(new URL('./import-thread.ts', import.meta.url), {
    workerData: { text },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  })
  let late: NodeJS.Timeout | undefined
  try {
    return await new Promise<ImportedConfigDto>((resolve, reject) => {
      const refuse = (why: string) =>
        reject(
          new RewardOpsError('invalid_input', `The configuration was given up: ${why}.`, {
            hint: 'Leave out what is not about rewards, and aliases within aliases.',
          }),
        )
      late = setTimeout(() => refuse(`it took longer than ${DEADLINE_MS / 1_000} s`), DEADLINE_MS)
      thread.once('message', resolve)
      thread.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ERR_WORKER_OUT_OF_MEMORY'
          ? refuse(`it took more than ${HEAP_MB} MB`)
          : reject(error),
      )
      thread.once('exit', () => refuse('its thread ended'))
    })
  } finally {
    clearTimeout(late)
    running--
    await thread.terminate()
  }
}
