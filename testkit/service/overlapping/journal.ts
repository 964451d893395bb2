import { existsSync, readFileSync, truncateSync } from 'node:fs'

export interface TrainedGroup {
  uid: string
  seq: number
  samples: { index: number; score: number | null; position: number | null }[]
}

/** A mini-batch that was trained on, and the cursor after it. */
export interface JournalLine {
  step: number
  cursor: string
  remaining: number
  groups: TrainedGroup[]
}

/** Reads a trainer's journal. An incomplete last line is dropped, because that mini-batch was not trained on. */
export function readJournal(path: string): {
  lines: JournalLine[]
  cursors: Map<number, string>
} {
  const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0)
  const whole = bytes.lastIndexOf(10) + 1
  if (whole < bytes.length) truncateSync(path, whole)
  const lines = bytes
    .toString('utf8', 0, whole)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as JournalLine)
  return { lines, cursors: new Map(lines.map(({ step, cursor }) => [step, cursor])) }
}
