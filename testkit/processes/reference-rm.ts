import { fileURLToPath } from 'node:url'
import type { Child } from './child.ts'
import { startServerProcess } from './server-process.ts'

/** A reference reward-model server in its own process. */
export interface ReferenceRmProcess extends Child {
  url: string
  model: string
  /** What it says it is. */
  what: string
}

const SCRIPT = fileURLToPath(new URL('../reference-rm/main.ts', import.meta.url))

/**
 * Starts one on a free port; resolves when it listens. It ends with this process, even when this one is killed.
 * @throws when it ends before it has told its address; what it said is on our standard error.
 */
export async function startReferenceRmProcess(
  args: readonly string[] = [],
): Promise<ReferenceRmProcess> {
  const { child, told } = await startServerProcess<{ url: string; model: string; what: string }>(
    'the reference reward-model server',
    SCRIPT,
    ['--port', '0', '--exit-with-stdin', ...args],
  )
  const { url, model, what } = told
  return { ...child, url, model, what }
}
