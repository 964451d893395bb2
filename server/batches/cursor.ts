import { RewardOpsError } from '../errors.ts'

/** The cursor after the `seq`-th completed group of a batch: `b12.37`. */
export function cursorAt(batchId: number, seq: number): string {
  return `b${batchId}.${seq}`
}

/** Returns the number of completed groups before a cursor; null is the start of the batch. Throws `cursor_mismatch`. */
export function seqOf(cursor: string | null, batchId: number): number {
  if (cursor === null) return 0
  const match = /^b(\d{1,10})\.(\d{1,10})$/.exec(cursor)
  if (!match) {
    throw new RewardOpsError(
      'cursor_mismatch',
      `"${cursor.slice(0, 40)}" is not a cursor of batches.next.`,
    )
  }
  if (Number(match[1]) !== batchId) {
    throw new RewardOpsError(
      'cursor_mismatch',
      `The cursor belongs to batch b${match[1]}, not to b${batchId}.`,
    )
  }
  return Number(match[2])
}
