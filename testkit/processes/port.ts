import { createServer } from 'node:net'

/** A free TCP port. Another process may take it before it is used. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  return (await tryListen(0, host)) as number
}

export async function portTaken(port: number, host = '127.0.0.1'): Promise<boolean> {
  return (await tryListen(port, host)) === null
}

function tryListen(port: number, host: string): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(null)
      else reject(error)
    })
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : port))
    })
  })
}
