import { once } from 'node:events'
import { connect } from 'node:net'
import type { Dispatcher } from 'undici'
import type { Call } from './calls.ts'

export interface Answer {
  /** The status, or null if the connection closed or the caller left before a status arrived. */
  status: number | null
  headers: Record<string, string | string[] | undefined>
  text: string
  ms: number
  /** `left`: the caller closed a long poll or a stream. `late`: no answer within the limit. `cut`: the connection broke. */
  end: 'answered' | 'left' | 'late' | 'cut'
}

/** Time after which a caller closes a long poll, a stream or a raw socket, in ms. */
const PATIENCE_MS = 700
/**
 * Time limit for the whole answer of any other call, in ms. A busy machine is many times slower than an idle one.
 */
const LIMIT_MS = 60_000
const MAX_TEXT = 2 << 20

/** Sends a call and reads the answer. Never throws. */
export async function send(origin: string, agent: Dispatcher, call: Call): Promise<Answer> {
  const startedAt = performance.now()
  const answer = call.raw ? await sendRaw(origin, call.raw) : await sendHttp(origin, agent, call)
  return { ...answer, ms: performance.now() - startedAt }
}

async function sendHttp(
  origin: string,
  agent: Dispatcher,
  call: Call,
): Promise<Omit<Answer, 'ms'>> {
  const signal = AbortSignal.timeout(call.lasts ? PATIENCE_MS : LIMIT_MS)
  const answer: Omit<Answer, 'ms'> = { status: null, headers: {}, text: '', end: 'answered' }
  try {
    const { headers, body } = call
    const method = call.method as Dispatcher.HttpMethod
    const ask = (path: string) => agent.request({ origin, path, method, headers, body, signal })
    let response = await ask(call.path)
    // Next redirects client-side navigation to a URL with a digest of the request headers.
    if (response.statusCode === 307) {
      await response.body.dump()
      const { pathname, search } = new URL(
        String(response.headers.location),
        `${origin}${call.path}`,
      )
      response = await ask(`${pathname}${search}`)
    }
    answer.status = response.statusCode
    answer.headers = response.headers
    for await (const piece of response.body) {
      if (answer.text.length < MAX_TEXT) answer.text += (piece as Buffer).toString('latin1')
    }
  } catch (error) {
    answer.end = !signal.aborted ? 'cut' : call.lasts ? 'left' : 'late'
    if (answer.end === 'cut') answer.text += String(error)
  }
  return answer
}

async function sendRaw(origin: string, bytes: Buffer): Promise<Omit<Answer, 'ms'>> {
  const { hostname, port, host } = new URL(origin)
  const socket = connect(Number(port), hostname)
  const signal = AbortSignal.timeout(PATIENCE_MS)
  let text = ''
  socket.on('data', (piece: Buffer) => {
    text += piece.toString('latin1')
    // The socket is closed after one answer, because most connections would stay open for another request.
    if (text.includes('\r\n\r\n')) socket.end()
  })
  socket.on('error', () => {})
  socket.write(Buffer.from(bytes.toString('latin1').replaceAll('HOST', host), 'latin1'))
  const isClosed = await once(socket, 'close', { signal }).then(
    () => true,
    () => false,
  )
  socket.destroy()
  const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]
  const end = status !== undefined ? 'answered' : isClosed ? 'cut' : 'left'
  return { status: status === undefined ? null : Number(status), headers: {}, text, end }
}
