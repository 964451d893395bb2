import type { EngineFetch, EngineLoad } from './engine.ts'
import { jsonOrNull } from './probe-answers.ts'

/** A server that reports more requests than this must have a broken counter. */
const BELIEVABLE_REQUESTS = 1_000_000

/**
 * Returns a reported load, or null if a number is missing, negative, not finite or implausible. For routing, no load is
 * better than a wrong one.
 */
export function believableLoad(running: unknown, waiting: unknown): EngineLoad | null {
  return believable(running) && believable(waiting) ? { running, waiting } : null
}

function believable(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= BELIEVABLE_REQUESTS
}

/**
 * Sums a metric of Prometheus' text format over its label sets (vLLM labels each data-parallel engine, SGLang each
 * rank). Returns null if the metric is missing. A negative or invalid value makes the sum NaN.
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

export async function metricsText(fetch: EngineFetch, path: string): Promise<string | null> {
  try {
    const reply = await fetch(path)
    return reply.status === 200 ? reply.bodyText : null
  } catch {
    return null
  }
}

export async function loadJson(fetch: EngineFetch, path: string): Promise<unknown> {
  try {
    return await jsonOrNull(fetch, path)
  } catch {
    return null
  }
}
