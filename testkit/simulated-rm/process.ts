import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import type { Child } from '../processes/child.ts'
import { startServerProcess } from '../processes/server-process.ts'
import type { ServerStats } from './ledger.ts'
import type { ControlChangeInput } from './options.ts'

/** Simulated servers in a process of their own. */
export interface SimulatedServers extends Child {
  /** One a server, in order. */
  urls: string[]
  model: string
  /** Changes one server, or all. @throws with what was wrong with the change. */
  control(change: ControlChangeInput, server?: number): Promise<void>
  stats(): Promise<ServerStats[]>
}

const SCRIPT = fileURLToPath(new URL('./main.ts', import.meta.url))

/**
 * Starts them on free ports with the options of `main.ts`; resolves when they listen. They end with this process, even
 * when it is killed. @throws when the process ends before it has told its addresses; what it said is on our standard error.
 */
export async function startSimulatedServers(args: readonly string[]): Promise<SimulatedServers> {
  const { child, told } = await startServerProcess<{
    urls: string[]
    model: string
    control: string
  }>('the process of simulated servers', SCRIPT, ['--port', '0', '--exit-with-stdin', ...args])
  const { urls, model, control } = told
  return {
    ...child,
    urls,
    model,
    async control(change, server) {
      const which = server === undefined ? '' : `?server=${server}`
      const body = JSON.stringify(change)
      const response = await request(`${control}/__control${which}`, { method: 'POST', body })
      const text = await response.body.text()
      if (response.statusCode !== 200) throw new Error(`/__control: ${text}`)
    },
    async stats() {
      const response = await request(`${control}/__stats`)
      return (await response.body.json()) as ServerStats[]
    },
  }
}
