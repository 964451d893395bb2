import { request } from 'node:http'
import type { RawAnswer } from './trpc-call.ts'

/**
 * Sends all of a body before it reads the answer, as Python's http.client does: a server that answers early and hangs
 * up is a broken pipe to it, and the answer is lost.
 * @throws the connection's error when it is cut before the whole body went out, or before the answer came
 */
export function sendInFull(
  url: string,
  headers: Record<string, string | number>,
  chunks: Iterable<Buffer>,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const req = request(url, { method: 'POST', headers, agent: false })
    let sent = false
    let answer: RawAnswer | null = null
    const settle = () => {
      if (sent && answer) resolve(answer)
    }
    req.on('error', reject)
    req.on('response', (res) => {
      let text = ''
      res.setEncoding('utf8')
      res.on('data', (part: string) => {
        text += part
      })
      res.on('error', reject)
      res.on('end', () => {
        answer = {
          status: res.statusCode as number,
          headers: res.headers,
          text,
          json: JSON.parse(text),
        }
        settle()
      })
    })
    const all = async () => {
      for (const chunk of chunks) {
        if (!req.write(chunk)) {
          await new Promise<void>((go, cut) => {
            const over = (error?: Error) => {
              req.off('drain', over).off('close', closed)
              error ? cut(error) : go()
            }
            const closed = () => over(new Error('the connection was cut while the body was sent'))
            req.once('drain', over).once('close', closed)
          })
        }
      }
      await new Promise<void>((done) => req.end(done))
      sent = true
      settle()
    }
    all().catch(reject)
  })
}

/** A request that stops half-way until it is told to go on, or to hang up. */
export interface HeldRequest {
  /** The first part left this process and was taken by the server's side of the connection. */
  halfSent: Promise<void>
  status: Promise<{ status: number }>
  hangUp(): void
}

/** Sends `first`, waits for `goOn`, then sends `rest`. */
export function holdHalfWay(
  url: string,
  first: Buffer,
  rest: Buffer,
  goOn: Promise<void>,
): HeldRequest {
  const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
  const req = request(url, { method: 'POST', headers, agent: false })
  const status = new Promise<{ status: number }>((resolve, reject) => {
    req.on('error', reject)
    req.on('response', (res) => {
      res.resume()
      res.on('end', () => resolve({ status: res.statusCode as number }))
    })
  })
  status.catch(() => {})
  const halfSent = new Promise<void>((resolve) => req.write(first, () => resolve()))
  void goOn.then(() => req.end(rest))
  return { halfSent, status, hangUp: () => req.destroy() }
}
