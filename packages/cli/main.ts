import { EXIT } from './exit-codes.ts'
import { runCommandLine } from './run.ts'

/** A Ctrl-C arrives twice: from the terminal, and from npm or the launcher. Signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000

const stopping = new AbortController()
let signalledAt = Number.NEGATIVE_INFINITY
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    const now = performance.now()
    if (now - signalledAt < SAME_SIGNAL_MS) return
    if (stopping.signal.aborted) process.exit(EXIT.interrupted)
    signalledAt = now
    stopping.abort()
  })
}

// A reader such as `head` may close the pipe early, which is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.internal)
})

const { env, stdout, stderr } = process
process.exitCode = await runCommandLine(process.argv.slice(2), {
  ...{ env, stdout, stderr },
  signal: stopping.signal,
})
