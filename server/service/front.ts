import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Config } from '../config.ts'
import { Access } from '../http/access.ts'
import { createHealth } from '../http/health.ts'
import { createListener, type Routes } from '../http/listener.ts'
import type { Logger } from '../log.ts'

/** What the health checks say. Changed as the process starts and stops. */
export interface Health {
  /** Why the process itself takes no batches: it starts or stops. Null: it serves. */
  notServing: string | null
  /** Why the database takes no writes; null: it does. */
  unready: () => string | null
  /** Null when a worker lives, or none is wanted; else why not. */
  problem: () => Promise<string | null>
  postgresPid: () => number | null
  workerPids: () => number[]
}

/** The port of the service. It is open before anything else, so that health checks are answered from the start. */
export interface Front {
  server: Server
  port: number
  /** `host:port`, where reward functions and workers reach the router address. */
  routerAddress: string
  access: Access
  /** Filled in as the parts come up. */
  routes: Routes
  health: Health
}

/** Opens the port. Throws when it is taken. */
export async function openFront(config: Config, log: Logger): Promise<Front> {
  const loopDelay = monitorEventLoopDelay({ resolution: 10 })
  loopDelay.enable()
  const health: Health = {
    notServing: 'starting: the database is not up yet',
    unready: () => null,
    problem: async () => null,
    postgresPid: () => null,
    workerPids: () => [],
  }
  const access = new Access(config)
  const routes: Routes = {
    health: createHealth({
      unready: () => health.notServing ?? health.unready(),
      problem: () => health.problem(),
      pids: () => ({
        server: process.pid,
        postgres: health.postgresPid(),
        workers: health.workerPids(),
      }),
      eventLoopMaxMs() {
        const ms = Math.max(0, loopDelay.max / 1e6 - 10)
        loopDelay.reset()
        return Math.round(ms * 10) / 10
      },
    }),
    trpc: null,
    proxy: null,
    pages: null,
    stopping: false,
  }
  const server = createListener(access, routes, log)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`Port ${config.port} on ${config.host} is taken. Set PORT to a free one.`)
          : error,
      ),
    )
    server.listen(config.port, config.host, resolve)
  })
  const { port } = server.address() as AddressInfo
  const routerAddress = `${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
  return { server, port, routerAddress, access, routes, health }
}
