import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { CallLimit } from '../call-limit.ts'
import { RunCodeRequest, RunTestsRequest } from '../contract/sandbox.ts'
import type { Logger } from '../log.ts'
import { type PythonRuns, RunLostError } from './python-runs.ts'
import { runCode } from './run-code.ts'
import { runTests } from './run-tests.ts'

const MAX_BODY_BYTES = 8 * 2 ** 20
/** Maximum number of waiting runs per slot. Further requests get a 504. */
const MAX_QUEUED_PER_SLOT = 256
/** The only status that SandboxFusion's clients retry. */
const BUSY_STATUS = 504

class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

type Runner = (body: unknown, runs: PythonRuns, signal: AbortSignal) => Promise<object>

const RUNNERS: Record<string, Runner> = {
  '/run_code': (body, runs, signal) => {
    const request = parse(RunCodeRequest, body)
    if (Object.keys(request.files).length > 0 || request.fetch_files.length > 0) {
      throw new Refusal(422, 'files and fetch_files are not supported')
    }
    return runCode(request, runs, signal)
  },
  '/run_tests': (body, runs, signal) => runTests(parse(RunTestsRequest, body), runs, signal),
}

/**
 * The HTTP side of a sandbox: `POST /run_code`, `POST /run_tests`, `GET /health`. At most `slots` programs run at a
 * time; further programs wait. If a caller closes its connection, its program is killed.
 */
export function sandboxServer(runs: PythonRuns, slots: number, log: Logger): Server {
  const limit = new CallLimit()
  const answer = async (request: IncomingMessage, signal: AbortSignal): Promise<object> => {
    const path = request.url?.split('?')[0] ?? ''
    if (path === '/health') {
      const { running, queued } = limit
      return { status: 'ok', languages: { python: runs.version }, slots, running, queued }
    }
    const runner = RUNNERS[path]
    if (runner === undefined) throw new Refusal(404, `there is no ${path}`)
    if (request.method !== 'POST') throw new Refusal(405, `${path} takes POST`)
    if (limit.queued >= MAX_QUEUED_PER_SLOT * slots) {
      throw new Refusal(BUSY_STATUS, 'too many programs are waiting')
    }
    const body = await jsonOf(request)
    return limit.run(() => runner(body, runs, signal), slots, signal)
  }
  return createServer((request, response) => {
    const gone = new AbortController()
    response.on('close', () => gone.abort(new Error('the caller has gone')))
    answer(request, gone.signal)
      .then((reply) => send(response, 200, reply))
      .catch((error: Error) => {
        if (gone.signal.aborted) return
        if (error instanceof Refusal) return send(response, error.status, { detail: error.message })
        const isLost = error instanceof RunLostError
        if (!isLost) log.error({ err: error.message }, 'a run failed')
        send(response, isLost ? BUSY_STATUS : 500, {
          detail: isLost ? error.message : 'the run failed',
        })
      })
  })
}

function parse<T extends z.ZodType<{ language: string }>>(schema: T, body: unknown): z.output<T> {
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw new Refusal(422, z.prettifyError(parsed.error))
  if (parsed.data.language !== 'python') {
    throw new Refusal(
      422,
      `the language ${JSON.stringify(parsed.data.language)} is not supported: use "python"`,
    )
  }
  return parsed.data
}

async function jsonOf(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request) {
    bytes += (piece as Buffer).length
    if (bytes > MAX_BODY_BYTES)
      throw new Refusal(413, `the body has more than ${MAX_BODY_BYTES} bytes`)
    pieces.push(piece as Buffer)
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString())
  } catch {
    throw new Refusal(400, 'the body is not JSON')
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  const headers = {
    'content-type': 'application/json',
    ...(status === BUSY_STATUS && { 'retry-after': '1' }),
  }
  response.writeHead(status, headers).end(JSON.stringify(body))
}
