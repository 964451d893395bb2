import {
  FAILED,
  PENDING,
  type SampleColumns,
  SCORED,
  SUBSTITUTED,
} from '../rewards/comparison/match-samples.ts'
import type { Database } from '../store/database.ts'
import type { BatchRow } from '../store/sql/batches.ts'
import { comparedColumns, comparedUids, responseHashes } from '../store/sql/compare.ts'

/** Number of samples that one statement reads; parsing them blocks the event loop for about 5 ms. */
const PAGE_SAMPLES = 8_192
const PAGE_GROUPS = 8_192
const PAGE_TEXTS = 1_024

const STATES = [PENDING, SCORED, FAILED, SUBSTITUTED]

/** Reads a batch's samples for a comparison, without their texts; `withResponses` adds a hash of each response. */
export async function readColumns(
  db: Database,
  batch: BatchRow,
  withResponses: boolean,
  signal?: AbortSignal,
): Promise<SampleColumns> {
  const n = batch.samples
  const columns = {
    state: new Uint8Array(n),
    score: new Float64Array(n).fill(Number.NaN),
    group: new Int32Array(n),
    source: new Int32Array(n),
    response: withResponses ? new Float64Array(n).fill(Number.NaN) : null,
  }
  const sources = new Map<string, number>()
  for (let from = 0; from < n; from += PAGE_SAMPLES) {
    signal?.throwIfAborted()
    const page = await comparedColumns(db, batch.id, from, Math.min(n, from + PAGE_SAMPLES))
    for (const [k, name] of page.data_source.entries()) {
      const at = from + k
      columns.state[at] = STATES[page.state[k] as number] as number
      columns.score[at] = page.score[k] ?? Number.NaN
      columns.group[at] = page.group_no[k] as number
      let source = sources.get(name)
      if (source === undefined) {
        source = sources.size
        sources.set(name, source)
      }
      columns.source[at] = source
    }
  }
  const uids: string[] = []
  // Reads to the end, because an open batch may have grown since its row was read.
  for (let full = true; full; ) {
    signal?.throwIfAborted()
    const page = await comparedUids(db, batch.id, uids.length, uids.length + PAGE_GROUPS)
    for (const uid of page) uids.push(uid)
    full = page.length === PAGE_GROUPS
  }
  const { response } = columns
  if (response !== null) {
    for (let from = 0; from < n; from += PAGE_TEXTS) {
      signal?.throwIfAborted()
      const to = Math.min(n, from + PAGE_TEXTS)
      const page = await responseHashes(db, batch.id, batch.text_bucket, from, to)
      for (const [k, hash] of page.entries()) response[from + k] = hash ?? Number.NaN
    }
  }
  return { ...columns, sources: [...sources.keys()], uids }
}
