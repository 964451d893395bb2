import type { ServerResponse } from 'node:http'

/** Replaces all occurrences of an ASCII text. All other bytes stay unchanged. */
export function replacedIn(bytes: Buffer, text: string, by: string): Buffer {
  if (!bytes.includes(text)) return bytes
  return Buffer.from(bytes.toString('latin1').replaceAll(text, by), 'latin1')
}

/**
 * Replaces an ASCII text in the headers and the body of an answer. The body is kept until its end, because the text may be
 * split between two chunks. Pages have at most about 100 KB and are rendered in a few milliseconds.
 */
export function replaceInAnswer(res: ServerResponse, text: string, by: string): void {
  const end = res.end.bind(res) as (body?: Buffer) => ServerResponse
  const pieces: Buffer[] = []
  const keep = (chunk: unknown) => {
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) pieces.push(Buffer.from(chunk))
  }
  // Next sends the headers before the first chunk; here they wait for the whole body.
  res.flushHeaders = () => {}
  res.write = ((chunk: unknown) => {
    keep(chunk)
    return true
  }) as ServerResponse['write']
  res.end = ((chunk?: unknown) => {
    keep(chunk)
    if (!res.headersSent) {
      res.removeHeader('content-length')
      for (const [name, value] of Object.entries(res.getHeaders())) {
        if (typeof value === 'number' || value === undefined) continue
        const values = [value].flat().map((each) => each.replaceAll(text, by))
        res.setHeader(name, Array.isArray(value) ? values : (values[0] as string))
      }
    }
    return pieces.length === 0 ? end() : end(replacedIn(Buffer.concat(pieces), text, by))
  }) as ServerResponse['end']
}
