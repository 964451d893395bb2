/** Something that is written to: a standard stream, or a test's. */
export interface TextSink {
  isTTY?: boolean | undefined
  columns?: number | undefined
  write(text: string): unknown
}

/** Where a command says what: results on stdout, for people and for programs alike; all else on stderr. */
export class Output {
  readonly stdout: TextSink
  readonly stderr: TextSink
  /** `--json`: stdout holds JSON and nothing else. */
  readonly json: boolean

  constructor(stdout: TextSink, stderr: TextSink, json: boolean) {
    this.stdout = stdout
    this.stderr = stderr
    this.json = json
  }

  /** A line of the result, for people; nothing under --json. */
  line(text: string): void {
    if (!this.json) this.stdout.write(`${text}\n`)
  }

  /** The result for programs, as one line; nothing without --json. */
  data(value: unknown): void {
    if (this.json) this.stdout.write(`${JSON.stringify(value)}\n`)
  }

  /** What is told beside the result: notes, warnings, progress that is not drawn. */
  note(text: string): void {
    this.stderr.write(`${text}\n`)
  }

  /** Rows under headings, columns aligned: numbers to the right. Nothing under --json. */
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
