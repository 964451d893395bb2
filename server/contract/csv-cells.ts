import { INTEGER_FIELDS, PROMPT_FIELDS, RESPONSE_FIELDS } from './sample-fields.ts'
import { isStorable } from './storable-text.ts'

/**
 * CSV cells (RFC 4180) that can be read back without loss. A text is written unchanged. Any other value, and a text
 * that CSV in UTF-8 cannot hold (NUL, lone surrogates), is written as `json:` and its JSON. Objects, arrays and chat
 * messages may also be bare JSON, as other programs write them.
 */

/**
 * The prefix of a cell with JSON. A text that itself starts with `json:` is written as a JSON string after this prefix.
 */
const MARK = 'json:'

/** Columns of a rollout, in the order of an export. An import accepts any order and requires {@link NEEDED_COLUMNS}. */
export const EXPORTED_ROLLOUT_COLUMNS = [
  'run',
  'step',
  'split',
  'batchId',
  'index',
  'uid',
  'dataSource',
  ...PROMPT_FIELDS,
  'prompt',
  'response',
  'groundTruth',
  'extraInfo',
  ...RESPONSE_FIELDS,
  'score',
] as const

/** Columns that a CSV of rollouts must have. */
export const NEEDED_COLUMNS = ['uid', 'dataSource', 'prompt', 'response'] as const

/** Columns of a result. In an export they follow the columns of the rollout. */
export const EXPORTED_RESULT_COLUMNS = [
  'status',
  'reason',
  'rawScore',
  'substituted',
  'rewardExtraInfo',
  'verdict',
  'extracted',
  'rewards',
  'queueMs',
  'scoreMs',
  'attempts',
  'serverName',
  'submittedAt',
  'dispatchedAt',
  'endedAt',
  'groupSeq',
  'groupCompletedAt',
  'batchCompletedAt',
] as const

/** The type of a column in Parquet. */
export type ColumnType = 'integer' | 'number' | 'boolean' | 'time' | 'text'

/** The columns that are not text. `queueMs` and `scoreMs` are doubles, as precise as in JSON Lines exports. */
export const TYPED_COLUMNS: Readonly<Record<Exclude<ColumnType, 'text'>, readonly string[]>> = {
  integer: ['step', 'index', ...INTEGER_FIELDS, 'attempts', 'groupSeq'],
  number: ['score', 'rawScore', 'queueMs', 'scoreMs'],
  boolean: ['substituted'],
  time: ['submittedAt', 'dispatchedAt', 'endedAt', 'groupCompletedAt', 'batchCompletedAt'],
}
const TYPE_OF = new Map(
  Object.entries(TYPED_COLUMNS).flatMap(([type, names]) =>
    names.map((name) => [name, type as ColumnType]),
  ),
)

/** The type of an export column. */
export function columnType(name: string): ColumnType {
  return TYPE_OF.get(name) ?? 'text'
}

/** Quotes a cell where RFC 4180 requires it. */
export function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** Matches the place before a formula: the start of a cell, or a character that some programs read as a separator. */
const FORMULA = /(^\s*|[;\t])(?=[=+\-@＝＋－＠])/g

/**
 * Puts `'` before formulas, so that spreadsheets show the text of a cell instead of evaluating it. An import does not
 * remove the `'`.
 */
export function withoutFormulas(cell: string): string {
  return cell.replace(FORMULA, "$1'")
}

/** Writes a response, given as JSON text, as a cell. */
export function textCell(json: string): string {
  if (!json.startsWith('"')) return `${MARK}${json}`
  const text = JSON.parse(json) as string
  return isPlain(text) ? text : `${MARK}${json}`
}

/** Writes a prompt, given as JSON text, as a cell: a string, or chat messages. */
export function promptCell(json: string): string {
  if (!json.startsWith('"')) return isMessages(json) ? json : `${MARK}${json}`
  const text = JSON.parse(json) as string
  return isPlain(text) && !isMessages(text) ? text : `${MARK}${json}`
}

/** Writes a ground truth, given as JSON text, as a cell; null becomes an empty cell. */
export function groundTruthCell(json: string | null): string {
  if (json === null) return ''
  if (!json.startsWith('"')) return isContainer(json) ? json : `${MARK}${json}`
  const text = JSON.parse(json) as string
  return text !== '' && isPlain(text) && !isContainer(text) ? text : `${MARK}${json}`
}

/** A JSON parser. It may throw for numbers that JavaScript would round. */
type Parse = (json: string) => unknown

/** Reads a prompt from its cell. @throws the errors of `parse` */
export function readPromptCell(cell: string, parse: Parse): unknown {
  if (cell.startsWith(MARK)) return parse(cell.slice(MARK.length))
  return isMessages(cell) ? parse(cell) : cell
}

/** Reads a response from its cell. @throws the errors of `parse` */
export function readTextCell(cell: string, parse: Parse): unknown {
  return cell.startsWith(MARK) ? parse(cell.slice(MARK.length)) : cell
}

/** Reads a ground truth from its cell; undefined for an empty one. @throws the errors of `parse` */
export function readGroundTruthCell(cell: string, parse: Parse): unknown {
  if (cell === '') return undefined
  if (cell.startsWith(MARK)) return parse(cell.slice(MARK.length))
  return isContainer(cell) ? parse(cell) : cell
}

function isPlain(text: string): boolean {
  return isStorable(text) && !text.startsWith(MARK)
}

function isContainer(text: string): boolean {
  if (!/^[[{]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function isMessages(text: string): boolean {
  if (!text.startsWith('[') || !text.includes('"role"')) return false
  try {
    const value = JSON.parse(text) as unknown
    return (
      Array.isArray(value) &&
      value.length > 0 &&
      value.every((turn) => typeof (turn as { role?: unknown } | null)?.role === 'string')
    )
  } catch {
    return false
  }
}
