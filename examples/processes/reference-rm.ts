import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Child, startNode } from './child.ts'

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
  const child = await startNode(SCRIPT, ['--port', '0', '--exit-with-stdin', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.process.stdout! })
  const told = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    child.ended,
  ])
  lines.close()
  child.process.stdout?.resume()
  if (typeof told !== 'string') {
    throw new Error(`the reference reward-model server ended at once (exit code ${told.code})`)
  }
  const { url, model, what } = JSON.parse(told) as { url: string; model: string; what: string }
  return { ...child, url, model, what }
}
