import type { Server } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Config } from '../config.ts'
import { EventLoopDelay } from '../event-loop-delay.ts'
import { Access } from '../http/access.ts'
import { createHealth } from '../http/health.ts'
import { createListener, type Routes } from '../http/listener.ts'
import { readTlsFiles, watchTlsFiles } from '../http/tls-files.ts'
import type { Logger } from '../log.ts'
import { withTimeout } from '../with-timeout.ts'

/** Interval at which a stop closes the connections that have become idle, in ms. */
const CLOSE_EVERY_MS = 20

export interface Health {
  /** The reason why a starting or stopping process accepts no batches; null when it serves. */
  notServing: string | null
  /** The reason why the database accepts no writes; null if it accepts them. */
  unready: () => string | null
  /** The reason why no worker is alive; null if one is alive or none is configured. */
  problem: () => Promise<string | null>
  postgresPid: () => number | null
  workerPids: () => number[]
}

/** The listener of the service. It opens first, so that health checks are answered from the start. */
export interface Front {
  server: Server
  port: number
  url: string
  /** `host:port`, without TLS, at which reward functions and workers reach the router address. */
  routerAddress: string
  access: Access
  /** The routes, added as modules start. */
  routes: Routes
  health: Health
}

/** Opens the port. @throws Error when the port is in use, or the certificate is wrong */
export async function openFront(config: Config, log: Logger): Promise<Front> {
  const loopDelay = new EventLoopDelay()
  const health: Health = {
    notServing: 'the service is starting',
    unready: () => null,
    problem: async () => null,
    postgresPid: () => null,
    workerPids: () => [],
  }
  const access = new Access(config, log)
  const routes: Routes = {
    health: createHealth({
      unready: () => health.notServing ?? health.unready(),
      problem: () => health.problem(),
      pids: () => ({
        server: process.pid,
        postgres: health.postgresPid(),
        workers: health.workerPids(),
      }),
      eventLoopMaxMs: () => Math.round(loopDelay.take().maxMs * 10) / 10,
    }),
    trpc: null,
    proxy: null,
    pages: null,
    stopping: false,
  }
  const { tls } = config
  const server = createListener(access, routes, log, tls && readTlsFiles(tls))
  const port = await listen(server, config.port, config.host)
  const address = `${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
  const front = { server, port, access, routes, health }
  if (tls === null)
    return { ...front, url: `http://${address}${config.basePath}`, routerAddress: address }
  watchTlsFiles(tls, server as TlsServer, log)
  // Reward functions and their clients call the router address without TLS, so it has a port on the loopback interface.
  const plain = createListener(access, routes, log, null)
  const routerAddress = `127.0.0.1:${await listen(plain, 0, '127.0.0.1')}`
  return { ...front, url: `https://${address}${config.basePath}`, routerAddress }
}

/**
 * Accepts no further connections. Returns a function that waits until all calls in progress are answered, at most
 * `withinMs`.
 */
export function closePort(server: Server): (withinMs: number) => Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  return async (withinMs) => {
    // A connection is idle when its answer has been sent.
    const closing = setInterval(() => server.closeIdleConnections(), CLOSE_EVERY_MS)
    await withTimeout(closed, withinMs)
    clearInterval(closing)
  }
}

async function listen(server: Server, port: number, host: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`Port ${port} on ${host} is in use. Set PORT to a free one.`)
          : error,
      ),
    )
    server.listen(port, host, resolve)
  })
  return (server.address() as AddressInfo).port
}
