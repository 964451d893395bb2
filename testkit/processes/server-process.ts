import { createInterface } from 'node:readline'
import { type Child, startNode } from './child.ts'

/**
 * Starts a script that listens and then prints its address as one line of JSON. The script ends when its standard input
 * closes, so it ends with this process, even when this process is killed. Later output is discarded.
 * @param what the script's name in the error: `the sandbox`
 * @throws when the script ends before it has printed its address; its errors appear on this process's standard error
 */
export async function startServerProcess<T>(
  what: string,
  script: string,
  args: readonly string[] = [],
): Promise<{ child: Child; printed: T }> {
  const child = await startNode(script, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.process.stdout! })
  const printed = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    child.ended,
  ])
  lines.close()
  child.process.stdout?.resume()
  if (typeof printed !== 'string')
    throw new Error(`${what} ended while starting (exit code ${printed.code})`)
  return { child, printed: JSON.parse(printed) as T }
}
