import type { IncomingMessage } from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { RewardOpsError } from '../errors.ts'

/** Unpacked size a body may have. */
export const MAX_BODY_BYTES = 256 << 20
/** Up to here a body is parsed on the server's loop; beyond, submit and append go to the ingest thread. */
export const INLINE_BYTES = 1 << 20
/** What other procedures may send: 16 MiB parse in about 100 ms. */
export const MAX_PLAIN_BYTES = 16 << 20

function tooLarge(limit: number): RewardOpsError {
  return new RewardOpsError(
    'body_too_large',
    `The body is larger than ${limit >> 20} MiB unpacked.`,
    {
      ...(limit === MAX_BODY_BYTES
        ? {}
        : {
            hint: 'Large content belongs into batches.submit or batches.append, which take 256 MiB.',
          }),
    },
  )
}

/** The body, unpacked, chunk by chunk. Throws RewardOpsError: `unsupported_encoding`, `bad_encoding`, `body_too_large`. */
export async function* unpacked(req: IncomingMessage, limit: number): AsyncGenerator<Buffer> {
  const encoding = (req.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  let stream: Readable = req
  if (encoding === 'gzip' || encoding === 'x-gzip' || encoding === 'zstd') {
    const decoder = encoding === 'zstd' ? createZstdDecompress() : createGunzip()
    stream = pipeline(req, decoder, () => {})
  } else if (encoding !== 'identity' && encoding !== '') {
    throw new RewardOpsError(
      'unsupported_encoding',
      `Content-Encoding "${encoding.slice(0, 40)}" is not known.`,
    )
  } else if (Number(req.headers['content-length'] ?? 0) > limit) {
    throw tooLarge(limit)
  }
  let bytes = 0
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
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
      throw new RewardOpsError('bad_encoding', `The body does not unpack as ${encoding}.`)
    }
    throw error
  }
}

/** Discards what the client still sends, so that it gets to read the answer; at most 30 s, then the line is cut. */
export function discardRest(req: IncomingMessage): void {
  if (req.complete || req.destroyed) return
  req.unpipe()
  req.resume()
  const timer = setTimeout(() => req.destroy(), 30_000)
  timer.unref()
  req.once('close', () => clearTimeout(timer))
}
