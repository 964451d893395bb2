export interface TextSink {
  isTTY?: boolean | undefined
  columns?: number | undefined
  write(text: string): unknown
}

/** Results go to stdout, everything else to stderr. */
export class Output {
  readonly stdout: TextSink
  readonly stderr: TextSink
  /** Whether `--json` is given: stdout then has only JSON. */
  readonly json: boolean

  constructor(stdout: TextSink, stderr: TextSink, json: boolean) {
    this.stdout = stdout
    this.stderr = stderr
    this.json = json
  }

  /** Omitted with --json. */
  line(text: string): void {
    if (!this.json) this.stdout.write(`${text}\n`)
  }

  /** Omitted without --json. */
  data(value: unknown): void {
    if (this.json) this.stdout.write(`${JSON.stringify(value)}\n`)
  }

  note(text: string): void {
    this.stderr.write(`${text}\n`)
  }

  /** Prints a table with right-aligned numbers. Prints nothing with --json. */
  table(headings: string[], rows: (string | number | null)[][]): void {
    if (this.json) return
    const cells = rows.map((row) => row.map((cell) => (cell === null ? '–' : String(cell))))
    const widths = headings.map((heading, column) =>
      Math.max(heading.length, ...cells.map((row) => (row[column] as string).length)),
    )
    const isNumber = headings.map((_, column) =>
      rows.every((row) => typeof row[column] === 'number' || row[column] === null),
    )
    for (const row of [headings, ...cells]) {
      const padded = row.map((cell, column) =>
        isNumber[column]
          ? cell.padStart(widths[column] as number)
          : cell.padEnd(widths[column] as number),
      )
      this.stdout.write(`${padded.join('  ').trimEnd()}\n`)
    }
  }
}
