import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Child, startNode } from '../../../examples/processes/child.ts'
import { rawRequest } from '../trpc-call.ts'
import type { SandboxStats } from './main.ts'

/** A sandbox in its own process. */
export interface Sandbox extends Child {
  /** Where it runs code. */
  runUrl: string
  stats(): Promise<SandboxStats>
}

const SCRIPT = fileURLToPath(new URL('./main.ts', import.meta.url))

/** Starts one on a free port; it ends with this process, even when this one is killed. */
export async function startSandbox(): Promise<Sandbox> {
  const child = await startNode(SCRIPT, [], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.process.stdout! })
  const told = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    child.ended,
  ])
  lines.close()
  if (typeof told !== 'string')
    throw new Error(`the sandbox ended at once (exit code ${told.code})`)
  const { url } = JSON.parse(told) as { url: string }
  return {
    ...child,
    runUrl: `${url}/run_code`,
    stats: async () => (await rawRequest(`${url}/__stats`, {})).json as SandboxStats,
  }
}
