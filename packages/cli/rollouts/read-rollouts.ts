import { basename } from 'node:path'
import { readerOfColumns, splitRecord } from './csv-rows.ts'
import { type NumberedLine, RolloutFileError, readLines } from './lines.ts'
import { looksLikeOpenAiSolutions, readOpenAiSolutions } from './openai-solutions.ts'
import { isParquet, parquetColumns, readParquetRows } from './parquet-rows.ts'
import { type JsonObject, parseJsonObject, withoutPythonNonFinite } from './parse-json.ts'
import type { GivenScores, Rollout, RolloutFormat } from './rollout.ts'
import { looksLikeSampleLine, readSampleLine } from './sample-lines.ts'
import { guessDataSource, looksLikeVerlDump, readVerlDump } from './verl-dump.ts'

export { RolloutFileError } from './lines.ts'
export type { GivenScores, Rollout, RolloutFormat } from './rollout.ts'

export interface OpenOptions {
  /** The data source of dump rows that do not name a data source. */
  dataSource?: string | undefined
  /** Default: `log`. */
  scores?: GivenScores
}

export type LineRead =
  | { line: number; rollouts: Rollout[]; error: null }
  | { line: number; rollouts: null; error: RolloutFileError }

export interface RolloutFile {
  path: string
  format: RolloutFormat
  /** Assumptions that were made about the file, to be shown to the user. */
  notes: string[]
  /** Can be called more than once. @throws RolloutFileError at the first bad line */
  rollouts(): AsyncGenerator<Rollout>
  /**
   * Reads the file. Yields the error of a bad line instead of throwing it.
   * @param onBytes receives the file's bytes before decompression
   * @throws RolloutFileError when the file as a whole cannot be read
   */
  lines(onBytes?: (bytes: Buffer) => void): AsyncGenerator<LineRead>
}

const LOOK_AHEAD_LINES = 64

/** A row that is not parsed yet. The errors of `read` name neither file nor row. */
interface UnreadRow {
  number: number
  read(): Rollout[]
}

/** Each call reads the file from the start. `onBytes` receives the file's bytes before decompression. */
type Rows = (onBytes?: (bytes: Buffer) => void) => AsyncGenerator<UnreadRow>

/**
 * Opens a file of rollouts, gzipped or not. Its content decides the format: JSON Lines, CSV or Parquet with one sample
 * of `batches.submit` per row; verl's `rollout_data_dir` dump, as JSON Lines or Parquet; or OpenAI's
 * `example_model_solutions.jsonl`.
 * @throws RolloutFileError naming file and line, here and while reading
 */
export async function openRollouts(path: string, options: OpenOptions = {}): Promise<RolloutFile> {
  const scores = options.scores ?? 'log'
  if (await isParquet(path)) return openParquet(path, options.dataSource, scores)
  const [head] = await firstLines(path, 1)
  if (!head) throw new RolloutFileError(path, null, 'contains no rollouts: the file is empty')
  const notes = /\.parquet$/i.test(path) ? ['is not a Parquet file despite its name'] : []
  if (!/^\s*[[{]/.test(head.text) && looksLikeHeader(head.text)) {
    const names = at(path, head, () => splitRecord(head.text))
    const read = at(path, head, () => readerOfColumns(names, 'JSON Lines, Parquet or a CSV'))
    return file(
      path,
      'csv',
      notes,
      lines(path, true, () => (line) => readSampleLine(read(splitRecord(line)), scores)),
    )
  }
  const first = at(path, head, () => parseLine(head.text, true))
  if (looksLikeOpenAiSolutions(first)) {
    notes.push('OpenAI’s solutions: answer lines "A: " were read as "#### "')
    const reader = () => {
      let problem = 0
      return (line: string) => readOpenAiSolutions(parseLine(line, false), problem++)
    }
    return file(path, 'openai-solutions', notes, lines(path, false, reader))
  }
  if (looksLikeVerlDump(first)) {
    const ahead = await firstLines(path, LOOK_AHEAD_LINES)
    const rows = ahead.map((line) => at(path, line, () => parseLine(line.text, true)))
    const { dataSource, note } = sourceOfDump(path, rows, options.dataSource, scores)
    const read = dumpReader(path, dataSource, scores)
    return file(
      path,
      'verl-dump',
      [...notes, ...note],
      lines(path, false, () => (line) => read(parseLine(line, true))),
    )
  }
  if (looksLikeSampleLine(first)) {
    return file(
      path,
      'samples',
      notes,
      lines(path, false, () => (line) => readSampleLine(parseLine(line, false), scores)),
    )
  }
  throw new RolloutFileError(
    path,
    head.number,
    `is none of the known formats; its fields are ${fieldNames(Object.keys(first))}. Known: {"uid","dataSource","prompt","response",…}, the same as CSV or Parquet; {"input","output","gts",…}; {"question","ground_truth",<model>:{"solution","is_correct"}}`,
  )
}

/** Columns that pandas adds for the index of a DataFrame. */
const PANDAS_INDEX = /^__index_level_\d+__$/

async function openParquet(
  path: string,
  given: string | undefined,
  scores: GivenScores,
): Promise<RolloutFile> {
  const columns = (await parquetColumns(path)).filter((name) => !PANDAS_INDEX.test(name))
  if (looksLikeVerlDump(Object.fromEntries(columns.map((name) => [name, null])))) {
    const ahead: JsonObject[] = []
    for await (const { values } of readParquetRows(path, columns)) {
      if (ahead.push(values) === LOOK_AHEAD_LINES) break
    }
    const { dataSource, note } = sourceOfDump(path, ahead, given, scores)
    const read = dumpReader(path, dataSource, scores)
    return file(
      path,
      'parquet',
      note,
      parquetRows(path, columns, ({ gts = null, ...row }) => read({ gts, ...row })),
    )
  }
  let read: (cells: readonly unknown[]) => JsonObject
  try {
    read = readerOfColumns(columns, 'a Parquet file')
  } catch (error) {
    throw new RolloutFileError(path, null, (error as Error).message)
  }
  const cells = (row: JsonObject) => columns.map((name) => row[name])
  return file(
    path,
    'parquet',
    [],
    parquetRows(path, columns, (row) => readSampleLine(read(cells(row)), scores)),
  )
}

/** verl names each dump file after its step. Rows name the step too, except in older versions of verl. */
const STEP_FILE = /^(\d{1,9})\.(?:jsonl(?:\.gz)?|parquet)$/

/** @throws RolloutFileError when the first rows reveal no data source and the rows must be scored */
function sourceOfDump(
  path: string,
  rows: JsonObject[],
  given: string | undefined,
  scores: GivenScores,
): { dataSource: string; note: string[] } {
  if (given !== undefined) return { dataSource: given, note: [] }
  const guess = guessDataSource(rows)
  const allScored = scores === 'keep' && rows.every(({ score }) => typeof score === 'number')
  if (guess === null && !allScored) {
    throw new RolloutFileError(
      path,
      null,
      'is a rollout dump without a data source, and its answers do not reveal one; use --data-source (for example openai/gsm8k)',
    )
  }
  const dataSource = guess ?? 'unknown'
  if (rows.some((row) => 'data_source' in row)) return { dataSource, note: [] }
  const why = guess === null ? '' : ', which fits its answers'
  return {
    dataSource,
    note: [
      `the dump names no data source and was read as ${dataSource}${why} (use --data-source to change it)`,
    ],
  }
}

function dumpReader(path: string, dataSource: string, scores: GivenScores) {
  const step = STEP_FILE.exec(basename(path))?.[1]
  return (row: JsonObject): Rollout[] => {
    const rollouts = readVerlDump(row, dataSource, scores)
    if (step !== undefined) for (const rollout of rollouts) rollout.step ??= Number(step)
    return rollouts
  }
}

function lines(path: string, isCsv: boolean, reader: () => (line: string) => Rollout[]): Rows {
  return async function* (onBytes) {
    const read = reader()
    let isHeader = isCsv
    const options = { quotes: isCsv, ...(onBytes ? { onBytes } : {}) }
    for await (const { number, text, problem } of readLines(path, options)) {
      if (isHeader) {
        isHeader = false
        continue
      }
      yield {
        number,
        read() {
          if (problem !== null) throw new Error(problem)
          return read(text)
        },
      }
    }
  }
}

function parquetRows(path: string, columns: string[], read: (row: JsonObject) => Rollout[]): Rows {
  return async function* (onBytes) {
    for await (const { number, values } of readParquetRows(path, columns, onBytes)) {
      yield { number, read: () => read(values) }
    }
  }
}

function file(path: string, format: RolloutFormat, notes: string[], rows: Rows): RolloutFile {
  async function* lines(onBytes?: (bytes: Buffer) => void): AsyncGenerator<LineRead> {
    for await (const row of rows(onBytes)) {
      try {
        yield { line: row.number, rollouts: row.read(), error: null }
      } catch (error) {
        const located = new RolloutFileError(path, row.number, (error as Error).message)
        yield { line: row.number, rollouts: null, error: located }
      }
    }
  }
  return {
    path,
    format,
    notes,
    lines,
    async *rollouts() {
      for await (const { rollouts, error } of lines()) {
        if (error !== null) throw error
        yield* rollouts
      }
    },
  }
}

function fieldNames(names: readonly string[]): string {
  return names
    .slice(0, 8)
    .map((name) => `"${name}"`)
    .join(', ')
}

/** Whether a first line that is not JSON looks like the header of a CSV. Any other text is reported as invalid JSON. */
function looksLikeHeader(text: string): boolean {
  return /^"?\w+"?(,"?[\w.]+"?)+$/.test(text.trim())
}

/** With `python`, NaN and Infinity become null instead of an error, because Python writes them into JSON. */
function parseLine(text: string, python: boolean): JsonObject {
  if (!python) return parseJsonObject(text)
  try {
    return parseJsonObject(text)
  } catch (error) {
    const json = withoutPythonNonFinite(text)
    if (json === text) throw error
    return parseJsonObject(json)
  }
}

async function firstLines(path: string, count: number): Promise<NumberedLine[]> {
  const lines: NumberedLine[] = []
  for await (const line of readLines(path)) {
    if (line.problem !== null) throw new RolloutFileError(path, line.number, line.problem)
    lines.push(line)
    if (lines.length === count) break
  }
  return lines
}

function at<T>(path: string, line: NumberedLine, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new RolloutFileError(path, line.number, (error as Error).message)
  }
}
