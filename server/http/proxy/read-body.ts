import type { IncomingMessage } from 'node:http'
import { RewardOpsError } from '../../errors.ts'
import { unpacked } from '../body.ts'

/** Maximum size of a decompressed body that is passed on. The body is kept for retries until an answer begins. */
export const MAX_PROXIED_BYTES = 32 << 20

/** Thrown when the client disconnects before its body is complete. */
export class ClientGone extends Error {}

/**
 * Reads and decompresses the whole body.
 * @throws RewardOpsError `body_too_large`, `bad_encoding`, `unsupported_encoding`; ClientGone
 */
export function readBody(req: IncomingMessage): Promise<Buffer> {
  const encoding = req.headers['content-encoding']
  return encoding === undefined || encoding === 'identity' ? readPlain(req) : readPacked(req)
}

/** Reads an uncompressed body with listeners, which cost less than a generator for the usual one or two chunks. */
function readPlain(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (Number(req.headers['content-length'] ?? 0) > MAX_PROXIED_BYTES) {
      reject(tooLarge())
      return
    }
    let first: Buffer | null = null
    let all: Buffer[] | null = null
    let bytes = 0
    const settle = (error: Error | null) => {
      req.off('data', onData).off('end', onEnd).off('close', onLost).off('error', onLost)
      if (error !== null) reject(error)
      else resolve(all === null ? (first ?? Buffer.alloc(0)) : Buffer.concat(all, bytes))
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_PROXIED_BYTES) {
        req.pause()
        settle(tooLarge())
      } else if (first === null) first = chunk
      else if (all === null) all = [first, chunk]
      else all.push(chunk)
    }
    const onEnd = () => settle(null)
    const onLost = () => {
      settle(new ClientGone())
      // Destroying the request emits the error again, which needs no further handling.
      req.on('error', () => {})
    }
    req.on('data', onData).on('end', onEnd).on('close', onLost).on('error', onLost)
  })
}

async function readPacked(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of unpacked(req, MAX_PROXIED_BYTES)) chunks.push(chunk)
  } catch (error) {
    if ((error as { reason?: string }).reason === 'body_too_large') throw tooLarge()
    if (req.errored !== null || (req.destroyed && !req.complete)) throw new ClientGone()
    throw error
  }
  return Buffer.concat(chunks)
}

function tooLarge(): RewardOpsError {
  const mib = MAX_PROXIED_BYTES >> 20
  return new RewardOpsError('body_too_large', `The body is larger than ${mib} MiB uncompressed.`, {
    hint: `The router address accepts at most ${mib} MiB per request. Send the texts in several requests.`,
  })
}
