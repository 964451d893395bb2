import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { drawFrom } from '../examples/generator/random.ts'
import type { ResponseHeaders } from '../server/engines/engine.ts'
import { vllm } from '../server/engines/vllm.ts'
import type { Dispatcher, StepServer } from './router-step-dispatcher.ts'
import type { StepSample } from './router-step-samples.ts'

interface Target {
  server: StepServer
  pool: Pool
  inFlight: number
}

type Pick = (targets: readonly Target[]) => Target

interface RetryRule {
  retries: number
  /** Delay before retry number `retry`, counted from 0. */
  delayMs(retry: number): number
  /** Whether retries use the first attempt's server; otherwise the policy chooses again. */
  sameServer: boolean
}

/** The SGLang gateway's defaults: five attempts on any server, with delays from 50 ms that grow by half each time. */
const USUAL_RETRIES: RetryRule = {
  retries: 4,
  delayMs: (retry) => 50 * 1.5 ** retry,
  sameServer: false,
}

/** The benchmark's step lasts seconds instead of minutes, so verl's delays of 1, 2 and 4 s are divided by ten. */
const BACKOFF_SCALE = 0.1
/** verl's retries: its router chooses a server once per request and keeps it. */
const STICKY_RETRIES: RetryRule = {
  retries: 3,
  delayMs: (retry) => 2 ** retry * 1000 * BACKOFF_SCALE,
  sameServer: true,
}

/** Least connections; ties go to the first server, as in verl. */
function leastConnections(targets: readonly Target[]): Target {
  let best = targets[0] as Target
  for (const target of targets) if (target.inFlight < best.inFlight) best = target
  return best
}

/**
 * A plain dispatcher sends every sample immediately to the server that its policy chooses, without limits. By default,
 * the timeouts, health checks and circuit breakers of common gateways are off or do not act within a step, so the
 * dispatcher has none.
 */
function plain(name: string, policy: () => Pick, rule: RetryRule): Dispatcher {
  return {
    name,
    async run({ servers, samples, ended, signal }) {
      const targets = servers.map(
        (server): Target => ({
          server,
          pool: new Pool(server.url, {
            connections: null,
            pipelining: 1,
            keepAliveTimeout: 4000,
            headersTimeout: 0,
            bodyTimeout: 0,
          }),
          inFlight: 0,
        }),
      )
      const pick = policy()
      const scoreSample = async (sample: StepSample): Promise<number | null> => {
        let target = pick(targets)
        for (let retry = 0; ; retry++) {
          const score = await attempt(target, sample, signal)
          if (score !== null || retry === rule.retries || signal.aborted) return score
          await sleep(rule.delayMs(retry), undefined, { signal }).catch(() => {})
          if (signal.aborted) return null
          if (!rule.sameServer) target = pick(targets)
        }
      }
      await Promise.all(samples.map(async (sample) => ended(sample, await scoreSample(sample))))
      await Promise.all(targets.map(({ pool }) => pool.destroy()))
    },
  }
}

/** Calls a server with the request format and parser of the service's engine. Returns null if there is no score. */
async function attempt(
  target: Target,
  sample: StepSample,
  signal: AbortSignal,
): Promise<number | null> {
  const { path, body } = vllm.buildScoreRequest(
    { prompt: sample.prompt, response: sample.response },
    { model: target.server.model, version: null },
  )
  target.inFlight += 1
  try {
    const response = await target.pool.request({
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal,
    })
    const text = await response.body.text()
    const headers = response.headers as ResponseHeaders
    const answer = vllm.parseScoreResponse(response.statusCode, headers, text)
    return answer.ok ? answer.score : null
  } catch {
    return null
  } finally {
    target.inFlight -= 1
  }
}

export const BASELINES: readonly Dispatcher[] = [
  plain(
    'round_robin',
    () => {
      let next = 0
      return (targets) => targets[next++ % targets.length] as Target
    },
    USUAL_RETRIES,
  ),
  plain(
    'power_of_two',
    () => {
      const draw = drawFrom(1)
      return (targets) => {
        const one = targets[draw.integer(0, targets.length - 1)] as Target
        const other = targets[draw.integer(0, targets.length - 1)] as Target
        return other.inFlight < one.inFlight ? other : one
      }
    },
    USUAL_RETRIES,
  ),
  plain('least_connections', () => leastConnections, USUAL_RETRIES),
  plain('sticky_retries', () => leastConnections, STICKY_RETRIES),
]
