import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { type AsyncRuleContext, RuleServiceError } from './async-rule.ts'

/** A program to run. */
export interface SandboxJob {
  code: string
  language: string
  /** Standard input; null for none. */
  stdin: string | null
  /** Time limit of the compilation and of the run, each in seconds. */
  timeoutS: number
  memoryLimitMb: number
}

/** The outcome of a program. */
export type SandboxOutcome =
  | { status: 'finished'; stdout: string }
  | { status: 'compile_error' | 'compile_timeout' | 'runtime_error' | 'timeout'; detail: string }

/** Time for queue, start and network, in addition to compilation and run. As in upstream. */
const graceS = 10
const tries = 3
/** Delay before the first retry of a 504; the second retry waits twice as long. As in upstream. */
const retryDelayMs = 1_000
/** Maximum size of an answer; a program with more output gets no verdict. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024
const MAX_DETAIL_CHARS = 500

const Run = z
  .object({
    status: z.string(),
    stdout: z.string().nullish(),
    stderr: z.string().nullish(),
    return_code: z.number().nullish(),
  })
  .nullish()
const Reply = z.object({
  status: z.string(),
  message: z.string().nullish(),
  compile_result: Run,
  run_result: Run,
})

/**
 * Runs a program in a sandbox that implements SandboxFusion's `POST /run_code`. A 504 is retried up to twice.
 * @throws RuleServiceError if the sandbox returned no verdict; the signal's reason when it aborts
 */
export async function runInSandbox(
  url: string,
  job: SandboxJob,
  context: AsyncRuleContext,
): Promise<SandboxOutcome> {
  const body = JSON.stringify({
    compile_timeout: job.timeoutS,
    run_timeout: job.timeoutS,
    code: job.code,
    stdin: job.stdin,
    memory_limit_MB: job.memoryLimitMb,
    language: job.language,
    files: {},
    fetch_files: [],
  })
  const sleep = context.sleep ?? ((ms, signal) => wait(ms, undefined, signal ? { signal } : {}))
  const limitMs = (2 * job.timeoutS + graceS) * 1000
  for (let attempt = 1; ; attempt++) {
    const response = await post(url, body, limitMs, context)
    if (response.status === 504 && attempt < tries) {
      await response.body?.cancel()
      await sleep(attempt * retryDelayMs, context.signal)
      continue
    }
    if (!response.ok) {
      const text = (await response.text().catch(() => '')).slice(0, MAX_DETAIL_CHARS)
      throw new RuleServiceError(
        response.status === 504 ? 'timeout' : response.status < 500 ? 'rejected' : 'transport',
        `the sandbox answered ${response.status}: ${text}`,
      )
    }
    return outcomeOf(await textOf(response, context.signal))
  }
}

async function post(
  url: string,
  body: string,
  limitMs: number,
  { signal, fetch: ask = fetch }: AsyncRuleContext,
): Promise<Response> {
  const limit = AbortSignal.timeout(limitMs)
  try {
    return await ask(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
      redirect: 'error',
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    })
  } catch (error) {
    throw serviceError(error, limit, signal)
  }
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
  const { name, message, cause } = error as Error
  if (limit?.aborted || name === 'TimeoutError') {
    return new RuleServiceError('timeout', 'the sandbox did not answer in time')
  }
  const why = (cause as Error | undefined)?.message ?? message
  return new RuleServiceError('transport', `the sandbox could not be reached: ${why}`)
}

function outcomeOf(text: string): SandboxOutcome {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    json = undefined
  }
  const parsed = Reply.safeParse(json)
  if (!parsed.success) {
    throw new RuleServiceError(
      'unparseable',
      `not an answer of a sandbox: ${text.slice(0, MAX_DETAIL_CHARS)}`,
    )
  }
  const { status, message, compile_result: compiled, run_result: ran } = parsed.data
  if (status === 'Success' && ran?.status === 'Finished') {
    return { status: 'finished', stdout: ran.stdout ?? '' }
  }
  if (status === 'Failed') {
    const isFailure = (run: typeof ran) =>
      run?.status === 'TimeLimitExceeded' ||
      run?.status === 'Error' ||
      (run?.status === 'Finished' && run.return_code !== 0)
    const detail = (run: typeof ran) => (run?.stderr ?? message ?? '').slice(0, MAX_DETAIL_CHARS)
    if (isFailure(compiled)) {
      const isTimeout = compiled?.status === 'TimeLimitExceeded'
      return { status: isTimeout ? 'compile_timeout' : 'compile_error', detail: detail(compiled) }
    }
    if (isFailure(ran)) {
      const isTimeout = ran?.status === 'TimeLimitExceeded'
      return { status: isTimeout ? 'timeout' : 'runtime_error', detail: detail(ran) }
    }
  }
  throw new RuleServiceError(
    'transport',
    `the sandbox returned no verdict: ${status} ${(message ?? '').slice(0, MAX_DETAIL_CHARS)}`.trim(),
  )
}
