import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants, createGzip, type Gzip } from 'node:zlib'
import { chosenEncoding } from './content-encoding.ts'

/** A response with the `flush` that tRPC calls after every chunk that should reach the browser now. */
type Flushing = ServerResponse & { flush?: () => void }

/**
 * Compresses an answer with gzip, chunk by chunk, if `types` matches its content type. In a request with several
 * queries, the result of a fast query still arrives before that of a slow query.
 *
 * Must be called before the head is sent.
 */
export function packAnswer(
  req: IncomingMessage,
  res: ServerResponse,
  types = /^application\/json/,
): void {
  if (chosenEncoding(req.headers['accept-encoding'], ['gzip']) === null) return
  const write = res.write.bind(res) as (chunk: Buffer) => boolean
  const end = res.end.bind(res) as (chunk?: unknown) => ServerResponse
  /** Null if this answer is not compressed; undefined if this is not decided yet, because the head is not known. */
  let gzip: Gzip | null | undefined

  const packer = (): Gzip | null => {
    if (gzip === undefined) gzip = begin()
    return gzip
  }
  const begin = (): Gzip | null => {
    const type = String(res.getHeader('content-type') ?? '')
    if (res.headersSent || res.hasHeader('content-encoding') || !types.test(type)) {
      return null
    }
    res.removeHeader('content-length')
    res.setHeader('content-encoding', 'gzip')
    res.appendHeader('vary', 'accept-encoding')
    const stream = createGzip({ level: constants.Z_BEST_SPEED })
    stream.on('data', (piece: Buffer) => {
      if (write(piece)) return
      stream.pause()
      res.once('drain', () => stream.resume())
    })
    stream.on('drain', () => res.emit('drain'))
    stream.once('end', () => end())
    stream.once('error', () => res.destroy())
    // Without this listener, a client that disconnects leaks the stream and its 256 KB.
    res.once('close', () => stream.destroy())
    return stream
  }

  res.write = ((chunk: Buffer | string) => {
    const packing = packer()
    return packing ? packing.write(chunk) : write(chunk as Buffer)
  }) as ServerResponse['write']
  res.end = ((chunk?: Buffer | string) => {
    const packing = chunk === undefined ? gzip : packer()
    if (!packing) return end(chunk)
    packing.end(chunk)
    return res
  }) as ServerResponse['end']
  ;(res as Flushing).flush = () => gzip?.flush(constants.Z_SYNC_FLUSH)
}
