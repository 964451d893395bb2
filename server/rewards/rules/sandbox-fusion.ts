import { setTimeout as wait } from 'node:timers/promises'
import type { z } from 'zod'
import {
  RunCodeReply,
  RunTestsReply,
  type RunTestsRequest,
  type SandboxLimit,
} from '../../contract/sandbox.ts'
import { type AsyncRuleContext, RuleServiceError } from './async-rule.ts'

export interface SandboxJob {
  code: string
  language: string
  stdin: string | null
  /** Time limit in seconds, for the compilation and for the run separately. */
  timeoutS: number
  memoryLimitMb: number
}

export type SandboxOutcome =
  | { status: 'finished'; stdout: string }
  | {
      status: 'compile_error' | 'compile_timeout' | 'runtime_error' | 'timeout'
      /** The limit that ended the program, if the sandbox reports it. */
      limit: SandboxLimit | null
      detail: string
    }

/** Time for queue, start and network in addition to compilation and run, s; as in verl. */
const graceS = 10
const tries = 3
const localTries = 10
/** Delay before the first retry of a 504; the second retry waits twice as long. As in verl. */
const retryDelayMs = 1_000
/** Maximum size of the sandbox's answer; a program with more output gets no verdict. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024
const MAX_DETAIL_CHARS = 500

/**
 * Runs a program in a sandbox that implements SandboxFusion's `POST /run_code`.
 * @throws RuleServiceError if the sandbox returned no verdict; the signal's reason when it aborts
 */
export async function runInSandbox(
  job: SandboxJob,
  context: AsyncRuleContext,
): Promise<SandboxOutcome> {
  const body = {
    compile_timeout: job.timeoutS,
    run_timeout: job.timeoutS,
    code: job.code,
    stdin: job.stdin,
    memory_limit_MB: job.memoryLimitMb,
    language: job.language,
    files: {},
    fetch_files: [],
  }
  const response = await ask('/run_code', body, 2 * job.timeoutS, context)
  return outcomeOf(await replyOf(RunCodeReply, response, context.signal))
}

/**
 * Runs test cases in a sandbox of this project. Returns null for any other sandbox, which has no `/run_tests`.
 * @throws RuleServiceError if the sandbox returned no verdict; the signal's reason when it aborts
 */
export async function testInSandbox(
  job: z.input<typeof RunTestsRequest> & { run_timeout: number },
  context: AsyncRuleContext,
): Promise<Exclude<RunTestsReply, { status: 'SandboxError' }> | null> {
  const limitS = job.cases.length * job.run_timeout
  const response = await ask('/run_tests', job, limitS, context, (status) => status === 404)
  if (response.status === 404) {
    await response.body?.cancel()
    return null
  }
  const reply = await replyOf(RunTestsReply, response, context.signal)
  if (reply.status !== 'SandboxError') return reply
  throw noVerdict(reply)
}

/**
 * Posts a request. A 504, which a busy sandbox returns, is retried up to twice. The local sandbox is restarted if it
 * exits, so requests to it are retried up to nine times, also after a lost connection.
 */
async function ask(
  path: string,
  body: object,
  runS: number,
  context: AsyncRuleContext,
  isExpected = (_status: number) => false,
): Promise<Response> {
  const { service, signal } = context
  const sleep =
    context.sleep ?? ((ms, until) => wait(ms, undefined, until ? { signal: until } : {}))
  // The local sandbox answers every request, so a request waits for its turn without a time limit.
  const limitMs = service.slots === undefined ? (runS + graceS) * 1_000 : null
  const text = JSON.stringify(body)
  const most = service.slots === undefined ? tries : localTries
  for (let attempt = 1; ; attempt++) {
    const lost = (error: unknown): null => {
      if (service.slots === undefined || attempt >= most || signal?.aborted) throw error
      return null
    }
    const response = await post(`${service.url}${path}`, text, limitMs, context).catch(lost)
    if (response === null) {
      await sleep(retryDelayMs, signal)
      continue
    }
    const { status } = response
    if (response.ok || isExpected(status)) return response
    if (status === 504 && attempt < most) {
      await response.body?.cancel()
      await sleep(attempt * retryDelayMs, signal)
      continue
    }
    const answer = (await response.text().catch(() => '')).slice(0, MAX_DETAIL_CHARS)
    const reason = status === 504 ? 'timeout' : status < 500 ? 'rejected' : 'transport'
    throw new RuleServiceError(reason, `the sandbox answered ${status}: ${answer}`)
  }
}

async function post(
  url: string,
  body: string,
  limitMs: number | null,
  { signal, service }: AsyncRuleContext,
): Promise<Response> {
  const limit = limitMs === null ? undefined : AbortSignal.timeout(limitMs)
  const signals = [signal, limit].filter((one) => one !== undefined)
  try {
    return await service.fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
      redirect: 'error',
      signal: AbortSignal.any(signals),
    })
  } catch (error) {
    throw serviceError(error, limit, signal)
  }
}

async function replyOf<T extends z.ZodType>(
  schema: T,
  response: Response,
  signal: AbortSignal | undefined,
): Promise<z.output<T>> {
  const text = await textOf(response, signal)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    json = undefined
  }
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  throw new RuleServiceError(
    'unparseable',
    `not an answer of a sandbox: ${text.slice(0, MAX_DETAIL_CHARS)}`,
  )
}

async function textOf(response: Response, signal: AbortSignal | undefined): Promise<string> {
  let text = ''
  let bytes = 0
  const decoder = new TextDecoder()
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > MAX_REPLY_BYTES) {
        throw new RuleServiceError('unparseable', `the sandbox answered more than ${bytes} bytes`)
      }
      text += decoder.decode(chunk, { stream: true })
    }
  } catch (error) {
    throw error instanceof RuleServiceError ? error : serviceError(error, undefined, signal)
  }
  return text + decoder.decode()
}

function serviceError(
  error: unknown,
  limit: AbortSignal | undefined,
  signal: AbortSignal | undefined,
): unknown {
  if (signal?.aborted) return signal.reason
  const { name, cause } = error as Error
  if (limit?.aborted || name === 'TimeoutError') {
    return new RuleServiceError('timeout', 'the sandbox did not answer in time')
  }
  // The message omits the URL, which an admin has configured.
  const code = (cause as NodeJS.ErrnoException | undefined)?.code
  const why = code === undefined ? '' : `: ${code}`
  return new RuleServiceError('transport', `the sandbox could not be reached${why}`)
}

function outcomeOf(reply: RunCodeReply): SandboxOutcome {
  const { status, message, compile_result: compiled, run_result: ran } = reply
  if (status === 'Success' && ran?.status === 'Finished') {
    return { status: 'finished', stdout: ran.stdout ?? '' }
  }
  if (status === 'Failed') {
    const isFailure = (run: typeof ran) =>
      run?.status === 'TimeLimitExceeded' ||
      run?.status === 'Error' ||
      (run?.status === 'Finished' && (run.return_code !== 0 || run.limit != null))
    const ended = (run: typeof ran) => ({
      limit: run?.limit ?? null,
      detail: (run?.stderr ?? message ?? '').slice(-MAX_DETAIL_CHARS),
    })
    if (isFailure(compiled)) {
      const isTimeout = compiled?.status === 'TimeLimitExceeded'
      return { status: isTimeout ? 'compile_timeout' : 'compile_error', ...ended(compiled) }
    }
    if (isFailure(ran)) {
      const isTimeout = ran?.status === 'TimeLimitExceeded'
      return { status: isTimeout ? 'timeout' : 'runtime_error', ...ended(ran) }
    }
  }
  throw noVerdict(reply)
}

function noVerdict({ status, message }: { status: string; message?: string | null | undefined }) {
  const said = `${status} ${message ?? ''}`.trim().slice(0, MAX_DETAIL_CHARS)
  return new RuleServiceError('transport', `the sandbox returned no verdict: ${said}`)
}
