import type { Readable } from 'node:stream'
import { HostChannel, limitReads } from './host-channel.ts'
import type { FunctionTarget, Inspected } from './protocol.ts'
import { type HostSettings, type StartedHost, startHost } from './start-host.ts'

/** Time limit for loading a module: packages may be large, and the machine busy. */
const INSPECT_MS = 15_000

/**
 * Loads a module in a separate process, because its top level is user code too, and inspects the target's export.
 * Nothing is constructed. Never rejects because of user code.
 */
export function inspectFunction(
  settings: HostSettings,
  target: FunctionTarget,
  withinMs = INSPECT_MS,
): Promise<Inspected> {
  return new Promise((resolve) => {
    const tail: string[] = []
    let host: StartedHost | undefined
    const end = (result: Inspected) => {
      clearTimeout(timer)
      host?.kill()
      resolve(result)
    }
    const failed = (message: string) => end({ ok: false, message, exports: [] })
    const notStarted = (error: Error) =>
      failed(`no process could be started for it: ${error.message}`)
    const timer = setTimeout(() => failed(`it was not loaded within ${withinMs} ms`), withinMs)
    try {
      host = startHost(settings, {
        target,
        rewardRouterAddress: null,
        onOver: (detail) => failed(`while it was loaded, ${detail}`),
      })
    } catch (error) {
      notStarted(error as Error)
      return
    }
    const { child } = host
    child.once('error', notStarted)
    if (child.pid === undefined) return
    for (const stream of [child.stdout, child.stderr]) limitReads(stream as Readable)
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (tail.length < 20) tail.push(text)
    })
    const channel = new HostChannel(
      host.channel,
      (message) => {
        if (message.type === 'inspected') end(message.result)
        // `spent` reports an uncaught error during loading.
        else if (message.type === 'spent') failed(message.why)
      },
      (problem) => failed(`its process sent a message that is not valid: ${problem}`),
    )
    child.once('exit', (code, signal) => {
      const said = tail.join('').trim().split('\n').at(-1)
      const how = signal === null ? `code ${code}` : signal
      failed(`its process ended with ${how} while it was loaded${said ? `: ${said}` : ''}`)
    })
    channel.send({ type: 'inspect', target })
  })
}
