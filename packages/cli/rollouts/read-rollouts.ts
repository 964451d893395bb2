import { basename } from 'node:path'
import { readerOfHeader, splitRecord } from './csv-rows.ts'
import { type NumberedLine, RolloutFileError, readLines } from './lines.ts'
import { looksLikeOpenAiSolutions, readOpenAiSolutions } from './openai-solutions.ts'
import { type JsonObject, parseJsonObject, withoutPythonNonFinite } from './parse-json.ts'
import type { GivenScores, Rollout, RolloutFormat } from './rollout.ts'
import { looksLikeSampleLine, readSampleLine } from './sample-lines.ts'
import { guessDataSource, looksLikeVerlDump, readVerlDump } from './verl-dump.ts'

export { RolloutFileError } from './lines.ts'
export type { GivenScores, Rollout, RolloutFormat } from './rollout.ts'

/** Options for opening a file of rollouts. */
export interface OpenOptions {
  /** Data source of dump rows that do not name one. */
  dataSource?: string | undefined
  /** Default: `log`. */
  scores?: GivenScores
}

/** Result of reading a line. */
export type LineRead =
  | { line: number; rollouts: Rollout[]; error: null }
  | { line: number; rollouts: null; error: RolloutFileError }

/** A rollout file of a known format. Only its first lines have been read. */
export interface RolloutFile {
  path: string
  format: RolloutFormat
  /** Assumptions made about the file, for the user; empty when there are none. */
  notes: string[]
  /** Streams the rollouts; can be called more than once. @throws RolloutFileError at the first bad line */
  rollouts(): AsyncGenerator<Rollout>
  /**
   * Streams the rollouts and the bad lines, for callers that continue after a bad line. `onBytes` receives the file's
   * bytes before decompression.
   * @throws RolloutFileError when the file as a whole cannot be read
   */
  lines(onBytes?: (bytes: Buffer) => void): AsyncGenerator<LineRead>
}

/** Number of lines read to guess a dump's data source. */
const LOOK_AHEAD_LINES = 64

/** Creates a line reader for one pass over the file. */
type MakeReader = () => (line: NumberedLine) => Rollout[]

/**
 * Opens a file of rollouts, gzipped or not. Its first line decides the format: JSON Lines (one sample of `batches.submit`
 * per line, optionally with `run`, `step` and `split`), the same as CSV, upstream's `rollout_data_dir` dump, or OpenAI's
 * `example_model_solutions.jsonl`.
 * @throws RolloutFileError naming file and line, here and while reading
 */
export async function openRollouts(path: string, options: OpenOptions = {}): Promise<RolloutFile> {
  const scores = options.scores ?? 'log'
  const [head] = await firstLines(path, 1)
  if (!head) throw new RolloutFileError(path, null, 'contains no rollouts: the file is empty')
  if (!/^\s*[[{]/.test(head.text) && looksLikeHeader(head.text)) {
    const read = at(path, head, () => readerOfHeader(splitRecord(head.text)))
    return file(path, 'csv', [], true, () => (line) => readSampleLine(read(line.text), scores))
  }
  const first = at(path, head, () => parseLine(head.text, true))
  if (looksLikeOpenAiSolutions(first)) {
    const notes = ['OpenAI’s solutions: answer lines "A: " were read as "#### "']
    return file(path, 'openai-solutions', notes, false, () => {
      let problem = 0
      return (line) => readOpenAiSolutions(parseLine(line.text, false), problem++)
    })
  }
  if (looksLikeVerlDump(first)) return openDump(path, options.dataSource, scores)
  if (looksLikeSampleLine(first)) {
    const read: MakeReader = () => (line) => readSampleLine(parseLine(line.text, false), scores)
    return file(path, 'samples', [], false, read)
  }
  throw new RolloutFileError(
    path,
    head.number,
    `is none of the known formats; its fields are ${Object.keys(first)
      .slice(0, 8)
      .map((key) => `"${key}"`)
      .join(
        ', ',
      )}. Known: {"uid","dataSource","prompt","response",…}, the same as CSV; {"input","output","gts",…}; {"question","ground_truth",<model>:{"solution","is_correct"}}`,
  )
}

/** Upstream names each dump file by its step. Rows name the step too, except in older versions. */
const STEP_FILE = /^(\d{1,9})\.jsonl(\.gz)?$/

async function openDump(
  path: string,
  given: string | undefined,
  scores: GivenScores,
): Promise<RolloutFile> {
  const notes: string[] = []
  let dataSource = given
  if (dataSource === undefined) {
    const rows = (await firstLines(path, LOOK_AHEAD_LINES)).map((line) =>
      at(path, line, () => parseLine(line.text, true)),
    )
    const guess = guessDataSource(rows)
    const allScored = scores === 'keep' && rows.every(({ score }) => typeof score === 'number')
    if (guess === null && !allScored) {
      throw new RolloutFileError(
        path,
        null,
        'is a rollout dump without a data source, and its answers do not reveal one; use --data-source (for example openai/gsm8k)',
      )
    }
    dataSource = guess ?? 'unknown'
    if (!rows.some((row) => 'data_source' in row)) {
      notes.push(
        `the dump names no data source and was read as ${dataSource}${guess === null ? '' : ', which fits its answers'} (use --data-source to change it)`,
      )
    }
  }
  const source = dataSource
  const step = STEP_FILE.exec(basename(path))?.[1]
  return file(path, 'verl-dump', notes, false, () => (line) => {
    const rollouts = readVerlDump(parseLine(line.text, true), source, scores)
    if (step !== undefined) for (const rollout of rollouts) rollout.step ??= Number(step)
    return rollouts
  })
}

function file(
  path: string,
  format: RolloutFormat,
  notes: string[],
  quotes: boolean,
  reader: MakeReader,
): RolloutFile {
  async function* lines(onBytes?: (bytes: Buffer) => void): AsyncGenerator<LineRead> {
    const read = reader()
    let isHeader = quotes
    for await (const line of readLines(path, { quotes, ...(onBytes ? { onBytes } : {}) })) {
      if (isHeader) {
        isHeader = false
        continue
      }
      try {
        if (line.problem !== null) throw new Error(line.problem)
        yield { line: line.number, rollouts: read(line), error: null }
      } catch (error) {
        const located = new RolloutFileError(path, line.number, (error as Error).message)
        yield { line: line.number, rollouts: null, error: located }
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

/** Returns whether the first line names CSV columns; other text is reported as invalid JSON. */
function looksLikeHeader(text: string): boolean {
  return /^"?\w+"?(,"?[\w.]+"?)+$/.test(text.trim())
}

/** Parses a line. `python`: NaN and Infinity are read as null instead of refused, for dumps, which Python writes. */
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
