import { readsImages } from '../contract/resolved-reward.ts'
import type { Database } from '../store/database.ts'
import { toRanges } from '../store/job-queue.ts'
import {
  type BatchSpec,
  type PendingSample,
  pendingSamples,
  type WholeGroup,
  wholeGroups,
} from '../store/sql/worker-reads.ts'
import { loadImages } from '../store/stored-images.ts'

interface Wanted {
  /** Indexes of a job as flattened ranges: [from, to, from, to …], `to` included. */
  ranges: readonly number[]
  resolve: (rows: PendingSample[]) => void
  reject: (error: unknown) => void
}

/**
 * Reads the samples of chunks. Chunks requested in one turn of the event loop, for example after a fetch of several
 * jobs, are read together, because the two queries of a read take 100 of the 250 µs that a chunk of 64 samples costs.
 */
export class ChunkReader {
  readonly #db: Database
  readonly #wanted = new Map<BatchSpec, Wanted[]>()

  constructor(db: Database) {
    this.#db = db
  }

  read(batch: BatchSpec, ranges: readonly number[]): Promise<PendingSample[]> {
    return new Promise((resolve, reject) => {
      const wanted = { ranges, resolve, reject }
      const others = this.#wanted.get(batch)
      if (others !== undefined) {
        others.push(wanted)
        return
      }
      const all = [wanted]
      this.#wanted.set(batch, all)
      setImmediate(() => {
        this.#wanted.delete(batch)
        void this.#readAll(batch, all)
      })
    })
  }

  async readGroups(batch: BatchSpec, ranges: readonly number[]): Promise<WholeGroup[]> {
    const groups = await wholeGroups(this.#db, batch, ranges)
    await this.withImages(
      batch,
      groups.flatMap(({ members }) => members),
    )
    return groups
  }

  async withImages(batch: BatchSpec, rows: PendingSample[]): Promise<PendingSample[]> {
    if (readsImages(batch.reward)) await loadImages(this.#db, rows)
    return rows
  }

  async #readAll(batch: BatchSpec, all: Wanted[]): Promise<void> {
    try {
      if (all.length === 1) {
        const [only] = all as [Wanted]
        only.resolve(await this.#readRanges(batch, only.ranges))
        return
      }
      const rows = await this.#readRanges(batch, merged(all.map(({ ranges }) => ranges)))
      const byIndex = new Map(rows.map((row) => [row.idx, row]))
      for (const { ranges, resolve } of all) resolve(rowsOf(ranges, byIndex))
    } catch (error) {
      for (const { reject } of all) reject(error)
    }
  }

  async #readRanges(batch: BatchSpec, ranges: readonly number[]): Promise<PendingSample[]> {
    return this.withImages(batch, await pendingSamples(this.#db, batch, ranges))
  }
}

function merged(all: readonly (readonly number[])[]): number[] {
  const indexes = new Set<number>()
  for (const ranges of all) for (const i of each(ranges)) indexes.add(i)
  return toRanges([...indexes].sort((a, b) => a - b))
}

function rowsOf(ranges: readonly number[], byIndex: Map<number, PendingSample>): PendingSample[] {
  const rows: PendingSample[] = []
  for (const i of each(ranges)) {
    const row = byIndex.get(i)
    if (row !== undefined) rows.push(row)
  }
  return rows
}

function* each(ranges: readonly number[]): Generator<number> {
  for (let k = 0; k < ranges.length; k += 2) {
    for (let i = ranges[k] as number; i <= (ranges[k + 1] as number); i++) yield i
  }
}
