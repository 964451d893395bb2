import { type NumberedLine, RolloutFileError, readLines } from './lines.ts'
import { looksLikeOpenAiSolutions, readOpenAiSolutions } from './openai-solutions.ts'
import { type JsonObject, parseJsonObject, withoutPythonNonFinite } from './parse-json.ts'
import type { Rollout, RolloutFormat } from './rollout.ts'
import { looksLikeSampleLine, readSampleLine } from './sample-lines.ts'
import { guessDataSource, looksLikeVerlDump, readVerlDump } from './verl-dump.ts'

export { RolloutFileError } from './lines.ts'
export type { Rollout, RolloutFormat } from './rollout.ts'

/** A rollout file whose format is known; nothing but its first lines has been read yet. */
export interface RolloutFile {
  path: string
  format: RolloutFormat
  /** What was decided for the reader, to be told to a person; empty when nothing was. */
  notes: string[]
  /** The rollouts, streamed line by line. Can be read more than once. */
  rollouts(): AsyncGenerator<Rollout>
}

/** How many lines are looked at to tell a dump's data source. */
const LOOK_AHEAD_LINES = 64

/**
 * Opens a file of rollouts. The format is found out from its first line: our own JSON Lines (a sample of
 * `batches.submit` a line, optionally with `run` and `step`), upstream's `rollout_data_dir` dump, or
 * OpenAI's `example_model_solutions.jsonl`.
 * @param options.dataSource for dumps, which do not name one.
 * @throws RolloutFileError naming file and line, here and while reading.
 */
export async function openRollouts(
  path: string,
  options: { dataSource?: string | undefined } = {},
): Promise<RolloutFile> {
  const first = await firstObjects(path, 1)
  const head = first[0]
  if (!head) throw new RolloutFileError(path, null, 'holds no rollouts: the file is empty')

  if (looksLikeOpenAiSolutions(head.value)) {
    const notes = ['OpenAI’s solutions: answer lines "A: " were read as "#### "']
    return file(path, 'openai-solutions', notes, () => {
      let problem = 0
      return (value) => readOpenAiSolutions(value, problem++)
    })
  }
  if (looksLikeVerlDump(head.value)) {
    let dataSource = options.dataSource
    const notes: string[] = []
    if (dataSource === undefined) {
      const rows = (await firstObjects(path, LOOK_AHEAD_LINES)).map((row) => row.value)
      const guess = guessDataSource(rows)
      if (guess === null) {
        throw new RolloutFileError(
          path,
          null,
          'is a rollout dump that names no data source, and its answers show none; give --data-source (for example openai/gsm8k)',
        )
      }
      dataSource = guess
      if (!rows.some((row) => 'data_source' in row)) {
        notes.push(
          `the dump names no data source; by its answers it was read as ${guess} (--data-source says otherwise)`,
        )
      }
    }
    const source = dataSource
    return file(path, 'verl-dump', notes, () => (value) => readVerlDump(value, source))
  }
  if (looksLikeSampleLine(head.value)) {
    return file(path, 'samples', [], () => readSampleLine)
  }
  throw new RolloutFileError(
    path,
    head.line.number,
    `is none of the known formats; its fields are ${Object.keys(head.value)
      .slice(0, 8)
      .map((key) => `"${key}"`)
      .join(
        ', ',
      )}. Known: {"uid","dataSource","prompt","response",…}; {"input","output","gts",…}; {"question","ground_truth",<model>:{"solution","is_correct"}}`,
  )
}

function file(
  path: string,
  format: RolloutFormat,
  notes: string[],
  reader: () => (value: JsonObject) => Rollout[],
): RolloutFile {
  return {
    path,
    format,
    notes,
    async *rollouts() {
      const read = reader()
      for await (const line of readLines(path)) {
        let rollouts: Rollout[]
        try {
          rollouts = read(parseLine(line, format))
        } catch (error) {
          throw new RolloutFileError(path, line.number, (error as Error).message)
        }
        yield* rollouts
      }
    },
  }
}

/** Only dumps come from Python; elsewhere a NaN is a fault to be told. */
function parseLine(line: NumberedLine, format: RolloutFormat | null): JsonObject {
  if (format !== null && format !== 'verl-dump') return parseJsonObject(line.text)
  try {
    return parseJsonObject(line.text)
  } catch (error) {
    const text = withoutPythonNonFinite(line.text)
    if (text === line.text) throw error
    return parseJsonObject(text)
  }
}

async function firstObjects(
  path: string,
  count: number,
): Promise<{ line: NumberedLine; value: JsonObject }[]> {
  const objects: { line: NumberedLine; value: JsonObject }[] = []
  for await (const line of readLines(path)) {
    try {
      objects.push({ line, value: parseLine(line, null) })
    } catch (error) {
      throw new RolloutFileError(path, line.number, (error as Error).message)
    }
    if (objects.length === count) break
  }
  return objects
}
