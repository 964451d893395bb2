import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { runCommandLine } from '../run.ts'

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))

export interface CliRun {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export class RunningCli {
  readonly child: ChildProcess
  readonly ended: Promise<CliRun>
  stdout = ''
  stderr = ''

  constructor(args: readonly string[], env: Record<string, string>, stdin: string | null) {
    const { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE } = process.env
    this.child = spawn(process.execPath, [MAIN, ...args], {
      env: environment({ PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, ...env }),
      stdio: [stdin === null ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    this.child.stdin?.end(stdin)
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    this.ended = once(this.child, 'close').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout: this.stdout,
      stderr: this.stderr,
    }))
  }
}

function environment(given: Record<string, string | undefined>): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as NodeJS.ProcessEnv
}

/** Starts the CLI in a process that inherits only PATH, HOME, TMPDIR and the compile cache from the environment. */
export function startCli(
  args: readonly string[],
  env: Record<string, string> = {},
  stdin: string | null = null,
): RunningCli {
  return new RunningCli(args, env, stdin)
}

/**
 * Runs a command in this process, because a separate process takes half a second of CPU time. A command that reads
 * stdin gets a separate process. In this process, the command sees only the variables in `env`.
 */
export async function runCli(
  args: readonly string[],
  env: Record<string, string> = {},
  stdin: string | null = null,
): Promise<CliRun> {
  if (stdin !== null) return startCli(args, env, stdin).ended
  const written = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  const sink = (stream: 'stdout' | 'stderr') => ({
    write: (text: string | Uint8Array) => written[stream].push(Buffer.from(text as string)) > 0,
  })
  const code = await runCommandLine([...args], {
    ...{ env, stdout: sink('stdout'), stderr: sink('stderr') },
    signal: new AbortController().signal,
  })
  const textOf = (stream: 'stdout' | 'stderr') => Buffer.concat(written[stream]).toString()
  return { code, signal: null, stdout: textOf('stdout'), stderr: textOf('stderr') }
}
