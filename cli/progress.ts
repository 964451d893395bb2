/** How far something is. */
export interface Progress {
  done: number
  total: number
  /** What else there is to say, for example `12 of 64 groups`. */
  note: string
}

/** Where progress is shown; standard error or output, or a test's. */
export interface ProgressOutput {
  isTTY?: boolean | undefined
  columns?: number | undefined
  write(text: string): unknown
}

const BAR_CELLS = 24
/** Eighths of a cell, so that the bar moves with every percent. */
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

/** A line of progress as text; at most `columns` wide. */
export function progressLine(label: string, progress: Progress, columns = 100): string {
  const { done, total, note } = progress
  const share = total === 0 ? 1 : Math.min(1, done / total)
  const eighths = Math.floor(share * BAR_CELLS * 8)
  const bar = ('█'.repeat(eighths >> 3) + EIGHTHS[eighths & 7]!).padEnd(BAR_CELLS, '░')
  const count = `${number(done).padStart(number(total).length)} of ${number(total)}`
  return `${label}  ${bar}  ${count}  ${note}`.trimEnd().slice(0, columns)
}

/**
 * Shows progress: on a terminal one line, drawn anew; elsewhere a line a second, so that a log stays readable.
 * @returns the function to call with news, and one to call at the end.
 */
export function showProgress(
  label: string,
  output: ProgressOutput = process.stdout,
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

/** `5,276`. */
export function number(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}
