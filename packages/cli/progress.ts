import type { TextSink } from './output.ts'

export interface Progress {
  done: number
  total: number
  /** For example `12 of 64 groups`. */
  note: string
}

const BAR_CELLS = 24
/** Eighths of a cell, so that the bar moves with every percent. */
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

export function progressLine(label: string, progress: Progress, columns = 100): string {
  const { done, total, note } = progress
  const share = total === 0 ? 1 : Math.min(1, done / total)
  const eighths = Math.floor(share * BAR_CELLS * 8)
  const bar = ('█'.repeat(eighths >> 3) + EIGHTHS[eighths & 7]!).padEnd(BAR_CELLS, '░')
  const count = `${number(done).padStart(number(total).length)} of ${number(total)}`
  return `${label}  ${bar}  ${count}  ${note}`.trimEnd().slice(0, columns)
}

/** On a terminal, redraws one line; elsewhere, prints at most one line per second. */
export function showProgress(
  label: string,
  output: TextSink = process.stdout,
  now: () => number = () => performance.now(),
): { update(progress: Progress): void; end(progress: Progress): void } {
  let lastLineAt = now()
  return {
    update(progress) {
      if (output.isTTY) {
        output.write(`\r\u001b[2K${progressLine(label, progress, (output.columns || 100) - 1)}`)
      } else if (now() - lastLineAt >= 1000) {
        lastLineAt = now()
        output.write(`${progressLine(label, progress)}\n`)
      }
    },
    end(progress) {
      const start = output.isTTY ? '\r\u001b[2K' : ''
      output.write(`${start}${progressLine(label, progress, output.columns || 100)}\n`)
    },
  }
}

export class Pace {
  readonly #now: () => number
  readonly #marks: { atMs: number; done: number }[] = []

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Such as `31,200 rows/s, 12 s left`; empty until a pace is known. */
  note(done: number, total: number): string {
    const atMs = this.#now()
    this.#marks.push({ atMs, done })
    while (this.#marks.length > 2 && atMs - this.#marks[0]!.atMs > PACE_MS) this.#marks.shift()
    const first = this.#marks[0]!
    const rate = ((done - first.done) * 1_000) / (atMs - first.atMs)
    if (!(rate > 0 && Number.isFinite(rate))) return ''
    return `${number(rate)} rows/s, ${duration((total - done) / rate)} left`
  }
}

const PACE_MS = 5_000

/** `45 s`, `3 min 20 s` or `2 h 5 min`. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3_600) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`
}

/** Rounds to an integer: `5,276`. */
export function number(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}
