import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import type { ServerCounters, ServerStats } from '../simulated-rm/ledger.ts'
import type { ControlChangeInput } from '../simulated-rm/options.ts'
import type { Child } from './child.ts'
import { startServerProcess } from './server-process.ts'

/** Simulated reward-model servers in a separate process. */
export interface SimulatedServers extends Child {
  url: string
  urls: string[]
  model: string
  /** Changes the settings of one server, or of all. @throws when the change is invalid */
  control(change: ControlChangeInput, server?: number): Promise<void>
  /** Counters of one server, by default the first. */
  counters(server?: number): Promise<ServerCounters>
  stats(): Promise<ServerStats[]>
}

const SCRIPT = fileURLToPath(new URL('../simulated-rm/main.ts', import.meta.url))

/**
 * Starts servers with the options of `main.ts`, on free ports by default; resolves when they listen. They end with this
 * process, even when it is killed.
 * @throws when the process ends before it has printed its URLs; its errors appear on this process's standard error
 */
export async function startSimulatedServers(
  args: readonly string[] = [],
): Promise<SimulatedServers> {
  const { child, printed } = await startServerProcess<{
    url: string
    urls: string[]
    model: string
    control: string
  }>('the process of simulated servers', SCRIPT, ['--port', '0', '--exit-with-stdin', ...args])
  const { url, urls, model, control } = printed
  const ask = async (path: string, body?: string) => {
    const method = body === undefined ? 'GET' : 'POST'
    const response = await request(control + path, { method, body: body ?? null })
    const text = await response.body.text()
    if (response.statusCode !== 200) throw new Error(`${path}: ${text}`)
    return JSON.parse(text)
  }
  return {
    ...child,
    url,
    urls,
    model,
    async control(change, server) {
      const which = server === undefined ? '' : `?server=${server}`
      await ask(`/__control${which}`, JSON.stringify(change))
    },
    async counters(server = 0) {
      const [{ counters }] = await ask(`/__control?server=${server}`)
      return counters
    },
    stats: () => ask('/__stats'),
  }
}
