import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { RewardOpsError } from '../errors.ts'

/** Maximum size of a decompressed body. */
export const MAX_BODY_BYTES = 256 << 20
/** Maximum size of a submit or append body that is parsed on the event loop. Larger bodies go to the ingest thread. */
export const MAX_INLINE_BYTES = 1 << 20
/** Maximum size of a body of the other procedures. Parsing 16 MiB takes about 100 ms. */
export const MAX_PLAIN_BYTES = 16 << 20

function tooLarge(limit: number): RewardOpsError {
  return new RewardOpsError(
    'body_too_large',
    `The body is larger than ${limit >> 20} MiB uncompressed.`,
    {
      ...(limit === MAX_BODY_BYTES
        ? {}
        : {
            hint: 'Send large content with batches.submit or batches.append, which accept 256 MiB.',
          }),
    },
  )
}

/**
 * Yields the decompressed chunks of a body. If the generator ends early, by an error or by the caller, the connection
 * stays open, and the caller discards the rest with {@link discardRest}.
 * @throws RewardOpsError `unsupported_encoding`, `bad_encoding`, `body_too_large`
 */
export async function* unpacked(req: IncomingMessage, limit: number): AsyncGenerator<Buffer> {
  const encoding = (req.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  let chunks: AsyncIterable<Buffer>
  let stopPiping = () => {}
  if (encoding === 'gzip' || encoding === 'x-gzip' || encoding === 'zstd') {
    const decoder = encoding === 'zstd' ? createZstdDecompress() : createGunzip()
    stopPiping = feed(decoder, req)
    chunks = decoder
  } else if (encoding !== 'identity' && encoding !== '') {
    throw new RewardOpsError(
      'unsupported_encoding',
      `Content-Encoding "${encoding.slice(0, 40)}" is not supported.`,
    )
  } else if (Number(req.headers['content-length'] ?? 0) > limit) {
    throw tooLarge(limit)
  } else {
    chunks = req.iterator({ destroyOnReturn: false })
  }
  let bytes = 0
  try {
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > limit) throw tooLarge(limit)
      yield chunk
    }
  } catch (error) {
    const code = (error as { code?: string }).code ?? ''
    if (
      code.startsWith('Z_') ||
      code.startsWith('ZSTD_') ||
      code === 'ERR_ZLIB_INITIALIZATION_FAILED'
    ) {
      throw new RewardOpsError('bad_encoding', `The body is not valid ${encoding}.`)
    }
    throw error
  } finally {
    stopPiping()
  }
}

/**
 * Pipes the request into the decoder, and returns a function that stops the piping. `pipeline` is not used, because it
 * would destroy the connection.
 */
function feed(decoder: Transform, req: IncomingMessage): () => void {
  const lost = () => {
    if (!req.complete) decoder.destroy(new Error('the client went away'))
  }
  req.once('close', lost)
  req.pipe(decoder)
  return () => {
    req.off('close', lost)
    req.unpipe(decoder)
    decoder.destroy()
  }
}

/** Time after which a client that is still sending is disconnected, in ms. */
const DISCARD_MS = 30_000

/** Discards the rest of a body. Resolves when the client has sent everything or was disconnected. */
export function discardRest(req: IncomingMessage): Promise<void> {
  if (req.readableEnded || req.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = setTimeout(() => req.destroy(), DISCARD_MS)
    timer.unref()
    const done = () => {
      clearTimeout(timer)
      resolve()
    }
    req.once('end', done)
    req.once('close', done)
    req.resume()
  })
}
