import { createInterface } from 'node:readline'
import { type Child, startNode } from './child.ts'

/**
 * Starts a script that listens and then says where in one line of JSON. It ends with this process, even when this one is
 * killed, as it reads the end of its standard input. What it says afterwards is not kept.
 * @param what it is called in the error: `the sandbox`
 * @throws when it ends before it has said where it is; what it said is on our standard error.
 */
export async function startServerProcess<T>(
  what: string,
  script: string,
  args: readonly string[] = [],
): Promise<{ child: Child; told: T }> {
  const child = await startNode(script, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.process.stdout! })
  const told = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    child.ended,
  ])
  lines.close()
  child.process.stdout?.resume()
  if (typeof told !== 'string') throw new Error(`${what} ended at once (exit code ${told.code})`)
  return { child, told: JSON.parse(told) as T }
}
