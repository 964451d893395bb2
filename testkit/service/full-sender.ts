import { type Agent, request } from 'node:http'
import { connect } from 'node:net'
import type { RawAnswer } from '../processes/trpc-call.ts'

/**
 * Sends a whole body before reading the answer, and requests that the connection be closed, as Python's urllib does. If
 * the server answers early and closes, the client sees a broken pipe and loses the answer. Uses a bare socket, because
 * Node's client stops sending after an early answer.
 * @throws the connection's error when it is cut before the whole body was sent, or before the answer arrived
 */
export async function sendInFull(
  url: string,
  headers: Record<string, string | number>,
  parts: Iterable<Buffer>,
): Promise<RawAnswer> {
  const { hostname, port, pathname, host } = new URL(url)
  const socket = connect(Number(port), hostname)
  const received: Buffer[] = []
  const ended = new Promise<void>((resolve, reject) => {
    socket.on('data', (bytes) => received.push(bytes))
    socket.on('error', reject)
    socket.on('close', () => resolve())
  })
  ended.catch(() => {})
  const send = async (bytes: Buffer | string) => {
    if (socket.write(bytes)) return
    const drained = new Promise<'drained'>((resolve) =>
      socket.once('drain', () => resolve('drained')),
    )
    if ((await Promise.race([drained, ended])) !== 'drained') {
      throw new Error('the connection was closed while the body was sent')
    }
  }
  const chunked = headers['content-length'] === undefined
  const fields = { host, connection: 'close', ...headers }
  await send(
    `POST ${pathname} HTTP/1.1\r\n${Object.entries(fields)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}${chunked ? 'transfer-encoding: chunked\r\n' : ''}\r\n`,
  )
  for (const part of parts) {
    if (chunked) await send(`${part.length.toString(16)}\r\n`)
    await send(part)
    if (chunked) await send('\r\n')
  }
  if (chunked) await send('0\r\n\r\n')
  await ended
  return parse(Buffer.concat(received).toString())
}

function parse(answer: string): RawAnswer {
  const end = answer.indexOf('\r\n\r\n')
  if (end < 0) throw new Error(`the connection was closed without an answer: "${answer}"`)
  const [status = '', ...lines] = answer.slice(0, end).split('\r\n')
  const text = answer.slice(end + 4)
  return {
    status: Number(status.split(' ')[1]),
    headers: Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    ),
    text,
    json: JSON.parse(text),
  }
}

/** A request that pauses half-way until the test continues or aborts it. */
export interface HeldRequest {
  /** Resolves when the server handles the request and the first part has been sent. */
  sent: Promise<void>
  answer: Promise<{ status: number }>
  hangUp(): void
}

export function holdHalfWay(
  url: string,
  first: Buffer,
  rest: Buffer,
  goOn: Promise<void>,
  agent: Agent | false = false,
): HeldRequest {
  const headers = {
    'content-type': 'application/json',
    'transfer-encoding': 'chunked',
    expect: '100-continue',
  }
  const req = request(url, { method: 'POST', headers, agent })
  const answer = new Promise<{ status: number }>((resolve, reject) => {
    req.on('error', reject)
    req.on('response', (res) => {
      res.resume()
      res.on('end', () => resolve({ status: res.statusCode as number }))
    })
  })
  answer.catch(() => {})
  const sent = new Promise<void>((resolve) => {
    req.on('continue', () => req.write(first, () => resolve()))
  })
  req.flushHeaders()
  void goOn.then(() => req.end(rest))
  return { answer, sent, hangUp: () => req.destroy() }
}
