import { fileURLToPath } from 'node:url'
import type { Child } from '../../processes/child.ts'
import { startServerProcess } from '../../processes/server-process.ts'
import { rawRequest } from '../../processes/trpc-call.ts'
import type { SandboxStats } from './main.ts'

export interface Sandbox extends Child {
  runUrl: string
  stats(): Promise<SandboxStats>
}

const SCRIPT = fileURLToPath(new URL('./main.ts', import.meta.url))

/** Starts a sandbox on a free port. The sandbox ends with this process, even if this process is killed. */
export async function startSandbox(): Promise<Sandbox> {
  const { child, printed } = await startServerProcess<{ url: string }>('the sandbox', SCRIPT)
  const { url } = printed
  return {
    ...child,
    runUrl: `${url}/run_code`,
    stats: async () => (await rawRequest(`${url}/__stats`, {})).json as SandboxStats,
  }
}
