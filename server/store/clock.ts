import type { Database } from './database.ts'

/** Database clock minus ours in ms, from the quickest of five answers; 0 where that cannot tell it from the way there. */
export async function clockOffsetMs(db: Database): Promise<number> {
  let best = { tookMs: Number.POSITIVE_INFINITY, offsetMs: 0 }
  for (let i = 0; i < 5; i++) {
    const sentAt = Date.now()
    const began = performance.now()
    const [row] = await db.rows<{ now: Date }>('clock', 'select clock_timestamp() as now')
    const tookMs = performance.now() - began
    if (tookMs < best.tookMs) best = { tookMs, offsetMs: row!.now.getTime() - sentAt - tookMs / 2 }
  }
  return Math.abs(best.offsetMs) <= best.tookMs + 1 ? 0 : best.offsetMs
}
