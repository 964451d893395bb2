import { Pool } from 'undici'

export interface BareLoopResult {
  requests: number
  elapsedMs: number
  perSecond: number
}

/**
 * The reference for all rates: undici alone sends the bodies to one server over several connections, one request per
 * connection at a time, and parses each answer and its score.
 * @throws when an answer is not a finite score
 */
export async function bareLoop(
  url: string,
  path: string,
  bodies: readonly string[],
  connections = 64,
): Promise<BareLoopResult> {
  const pool = new Pool(url, { connections, pipelining: 1 })
  const headers = { 'content-type': 'application/json' }
  let next = 0
  const startedAt = performance.now()
  try {
    await Promise.all(
      Array.from({ length: Math.min(connections, bodies.length) }, async () => {
        while (next < bodies.length) {
          const body = bodies[next++] as string
          const response = await pool.request({ path, method: 'POST', headers, body })
          const text = await response.body.text()
          const score = (JSON.parse(text) as { data?: { probs: number[] }[] }).data?.[0]?.probs[0]
          if (!Number.isFinite(score)) {
            throw new Error(
              `the reward-model server answered ${response.statusCode}: ${text.slice(0, 200)}`,
            )
          }
        }
      }),
    )
  } finally {
    await pool.close()
  }
  const elapsedMs = performance.now() - startedAt
  return { requests: bodies.length, elapsedMs, perSecond: (bodies.length / elapsedMs) * 1000 }
}
