import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { drawFrom } from '../examples/generator/random.ts'
import type { ResponseHeaders } from '../server/engines/engine.ts'
import { vllm } from '../server/engines/vllm.ts'
import type { Dispatcher, StepServer } from './router-step-dispatcher.ts'
import type { StepRow } from './router-step-rows.ts'

/** A server with what a plain dispatcher knows of it. */
interface Target {
  server: StepServer
  pool: Pool
  inFlight: number
}

/** Picks the server of one attempt. */
type Pick = (targets: readonly Target[]) => Target

/** After a failure: how often it is tried again, how long is waited before, and where. */
interface RetryRule {
  retries: number
  /** Before the n-th retry, from 0. */
  delayMs(retry: number): number
  /** Always the server of the first attempt; otherwise the policy picks again. */
  sameServer: boolean
}

/** As the SGLang gateway's defaults: five attempts, 50 ms × 1.5, any server again. */
const USUAL_RETRIES: RetryRule = {
  retries: 4,
  delayMs: (retry) => 50 * 1.5 ** retry,
  sameServer: false,
}

/** A step here lasts some seconds, not minutes: upstream's back-off of 1, 2, 4 s is a tenth of that. */
const BACKOFF_SCALE = 0.1
/** Upstream's router picks a server once a request and stays with it. */
const STICKY_RETRIES: RetryRule = {
  retries: 3,
  delayMs: (retry) => 2 ** retry * 1000 * BACKOFF_SCALE,
  sameServer: true,
}

/** Least in flight; the first of equals, as upstream's. */
function leastConnections(targets: readonly Target[]): Target {
  let best = targets[0] as Target
  for (const target of targets) if (target.inFlight < best.inFlight) best = target
  return best
}

/**
 * A plain dispatcher: every row is sent at once to the server its policy picks, whatever that one has in flight. No time
 * limit, no health, no circuit breaker, as these have none by default or none that acts within a step.
 */
function plain(name: string, policy: () => Pick, rule: RetryRule): Dispatcher {
  return {
    name,
    async run({ servers, rows, ended, signal }) {
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
      const scoreRow = async (row: StepRow): Promise<number | null> => {
        let target = pick(targets)
        for (let retry = 0; ; retry++) {
          const score = await attempt(target, row, signal)
          if (score !== null || retry === rule.retries || signal.aborted) return score
          await sleep(rule.delayMs(retry), undefined, { signal }).catch(() => {})
          if (signal.aborted) return null
          if (!rule.sameServer) target = pick(targets)
        }
      }
      await Promise.all(rows.map(async (row) => ended(row, await scoreRow(row))))
      await Promise.all(targets.map(({ pool }) => pool.destroy()))
    },
  }
}

/** One call, by the very requests and parser of the service's engine. Null: no score. */
async function attempt(target: Target, row: StepRow, signal: AbortSignal): Promise<number | null> {
  const { path, body } = vllm.buildScoreRequest(
    { prompt: row.prompt, response: row.response },
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

/** What the router is compared with. */
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
