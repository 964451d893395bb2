import type { EngineFetch, EngineLoad } from './engine.ts'
import { jsonOrNull } from './probe-answers.ts'

/** Most requests a server is believed to hold: more is a broken counter, not a queue. */
const BELIEVABLE_REQUESTS = 1_000_000

/**
 * A load as the server tells it, null when a number is missing, negative, not finite or beyond belief: routing by a
 * broken counter is worse than by none.
 */
export function believableLoad(running: unknown, waiting: unknown): EngineLoad | null {
  return believable(running) && believable(waiting) ? { running, waiting } : null
}

function believable(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= BELIEVABLE_REQUESTS
}

/**
 * The sum of a metric over its label sets (vLLM labels each data-parallel engine, SGLang each rank) in Prometheus' text
 * format; null where it is not there. One that is negative or not a number makes the whole NaN.
 */
export function metricSum(text: string, name: string): number | null {
  let sum: number | null = null
  for (const line of text.split('\n')) {
    if (!line.startsWith(name)) continue
    const sample = /^(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+(\S+)/.exec(line.slice(name.length))
    if (sample === null) continue
    const value = Number(sample[1])
    sum = (sum ?? 0) + (value >= 0 ? value : Number.NaN)
  }
  return sum
}

/** The text of /metrics, null where it is not to be had. */
export async function metricsText(fetch: EngineFetch, path: string): Promise<string | null> {
  try {
    const reply = await fetch(path)
    return reply.status === 200 ? reply.bodyText : null
  } catch {
    return null
  }
}

/** The JSON of a load route, null where it is not to be had: no load is told for a server that cannot be reached. */
export async function loadJson(fetch: EngineFetch, path: string): Promise<unknown> {
  try {
    return await jsonOrNull(fetch, path)
  } catch {
    return null
  }
}
