import { createHash } from 'node:crypto'
import type { JsonObject } from './parse-json.ts'
import type { GivenScores, Rollout } from './rollout.ts'

/** Whether a file's first line is from verl's `trainer.rollout_data_dir`: `{input, output, gts, score, step, …}`. */
export function looksLikeVerlDump(first: JsonObject): boolean {
  return 'input' in first && 'output' in first && 'gts' in first
}

/**
 * Reads a line of verl's dump. Rows with the same `input` form a group, unless there is a `uid` column. In the dumps of
 * verl's validation, that column has `<uid>_<session>_<index>`, and `<uid>` is the prompt's id. If the score is kept,
 * extra columns become the reward extra info. Otherwise, extra columns and score go to `extraInfo`.
 * @throws Error naming the field
 */
export function readVerlDump(line: JsonObject, dataSource: string, scores: GivenScores): Rollout[] {
  const { input, output, gts, score, step, uid, data_source: named, ...columns } = line
  const keptScore = scores === 'keep' && typeof score === 'number' ? score : null
  if (typeof input !== 'string') throw new Error('"input" is missing or not text')
  if (typeof output !== 'string') throw new Error('"output" is missing or not text')
  if (gts === undefined) throw new Error('"gts" is missing')
  if (step !== undefined && !(Number.isSafeInteger(step) && (step as number) >= 0)) {
    throw new Error('"step" is not a training step')
  }
  const logged = score === undefined || scores === 'keep' ? {} : { logged_score: score }
  return [
    {
      sample: {
        uid:
          typeof uid === 'string' && uid !== ''
            ? uid.replace(/_\d+_\d+$/, '')
            : `input-${createHash('sha256').update(input).digest('hex').slice(0, 12)}`,
        dataSource: typeof named === 'string' && named !== '' ? named : dataSource,
        prompt: input,
        response: output,
        groundTruth: gts,
        // A NaN score was read as null and is not kept.
        ...(keptScore === null
          ? { extraInfo: { ...columns, ...logged } }
          : { score: keptScore, ...splitColumns(columns) }),
      },
      run: null,
      step: (step as number | undefined) ?? null,
      split: null,
    },
  ]
}

/** Columns that do not come from the reward. */
const OTHER_COLUMNS: ReadonlySet<string> = new Set(['request_id', 'sample_id'])

function splitColumns(columns: JsonObject): {
  extraInfo: JsonObject
  rewardExtraInfo?: JsonObject
} {
  const entries = Object.entries(columns)
  const reward = entries.filter(([key]) => !OTHER_COLUMNS.has(key))
  return {
    extraInfo: Object.fromEntries(entries.filter(([key]) => OTHER_COLUMNS.has(key))),
    ...(reward.length === 0 ? {} : { rewardExtraInfo: Object.fromEntries(reward) }),
  }
}

/** Answer marker of each rule. Prompts usually request it explicitly. */
const MARKERS: [dataSource: string, marker: RegExp][] = [
  ['openai/gsm8k', /####/],
  ['searchR1_nq', /<answer>/],
  ['lighteval/MATH', /\\boxed/],
  ['math_dapo', /\bAnswer\s*:/i],
]

export function guessDataSource(rows: JsonObject[]): string | null {
  const named = rows.find((row) => typeof row.data_source === 'string' && row.data_source !== '')
  if (named) return named.data_source as string
  for (const [dataSource, marker] of MARKERS) {
    const showing = rows.filter((row) => marker.test(`${row.input}\n${row.output}`)).length
    if (showing * 2 > rows.length) return dataSource
  }
  return null
}
