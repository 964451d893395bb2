import {
  EXPORTED_RESULT_COLUMNS,
  EXPORTED_ROLLOUT_COLUMNS,
  NEEDED_COLUMNS,
  readGroundTruthCell,
  readPromptCell,
  readTextCell,
} from '../../../server/contract/csv-cells.ts'
import { ANNOTATIONS_COLUMN } from '../../../server/contract/export.ts'
import { DETAIL_FIELDS, INTEGER_FIELDS, snakeCase } from '../../../server/contract/sample-fields.ts'
import { type JsonObject, parseJsonObject, parseJsonValue } from './parse-json.ts'

/** Python spellings of field names. */
const ALIASES = new Map(
  ['dataSource', 'groundTruth', 'extraInfo', ...DETAIL_FIELDS, 'rewardExtraInfo'].map((name) => [
    snakeCase(name),
    name,
  ]),
)

/** Columns whose cells are JSON objects or empty. */
const JSON_COLUMNS = new Set(['extraInfo', 'rewardExtraInfo', 'rewards'])
/** Columns whose cells are numbers or empty. */
const NUMBERS = new Set(['step', ...INTEGER_FIELDS, 'score'])
const IGNORED = new Set([
  ...['batchId', 'index', 'rawScore', 'queueMs', 'scoreMs'],
  ANNOTATIONS_COLUMN,
])
const KNOWN = new Set<string>([
  ...EXPORTED_ROLLOUT_COLUMNS,
  ...EXPORTED_RESULT_COLUMNS,
  ANNOTATIONS_COLUMN,
])

/**
 * Splits an RFC 4180 record into its fields and removes their quotes.
 * @throws Error for a misplaced quote
 */
export function splitRecord(record: string): string[] {
  const fields: string[] = []
  for (let at = 0; ; ) {
    if (record[at] === '"') {
      let field = ''
      let from = at + 1
      for (;;) {
        const quote = record.indexOf('"', from)
        if (quote === -1) throw new Error('a quoted field is not closed')
        field += record.slice(from, quote)
        if (record[quote + 1] !== '"') {
          at = quote + 1
          break
        }
        field += '"'
        from = quote + 2
      }
      fields.push(field)
      if (at === record.length) return fields
      if (record[at] !== ',') throw new Error('text follows a quoted field')
    } else {
      let end = record.indexOf(',', at)
      if (end === -1) end = record.length
      const field = record.slice(at, end)
      if (field.includes('"')) throw new Error('an unquoted field contains a quote')
      fields.push(field)
      if (end === record.length) return fields
      at = end
    }
    at++
  }
}

/**
 * Returns a function that converts the cells of a row to the object of the equivalent JSON line.
 * @param format the format's name, for the message
 * @throws Error naming a column that is missing, unknown or repeated
 */
export function readerOfColumns(
  names: readonly string[],
  format: string,
): (cells: readonly unknown[]) => JsonObject {
  const columns = names.map((name) => ALIASES.get(name.trim()) ?? name.trim())
  const missing = NEEDED_COLUMNS.filter((name) => !columns.includes(name))
  if (missing.length > 0) {
    throw new Error(
      `is not ${format} of rollouts: it has no column ${missing.map((name) => `"${name}"`).join(', ')}`,
    )
  }
  const unknown = columns.find((name) => !KNOWN.has(name))
  if (unknown !== undefined) {
    throw new Error(`has an unknown column "${unknown}"; known are ${[...KNOWN].join(', ')}`)
  }
  const twice = columns.find((name, at) => columns.indexOf(name) !== at)
  if (twice !== undefined) throw new Error(`has the column "${twice}" twice`)
  return (cells) => {
    if (cells.length !== columns.length) {
      throw new Error(`has ${cells.length} fields, and the header has ${columns.length}`)
    }
    const object: JsonObject = {}
    for (const [at, column] of columns.entries()) {
      if (IGNORED.has(column)) continue
      const cell = cells[at]
      const value = typeof cell === 'string' ? cellValue(column, cell) : cell
      if (value !== undefined) object[column] = value
    }
    return object
  }
}

function cellValue(column: string, cell: string): unknown {
  try {
    if (column === 'prompt') return readPromptCell(cell, parseJsonValue)
    if (column === 'response') return readTextCell(cell, parseJsonValue)
    if (column === 'groundTruth') return readGroundTruthCell(cell, parseJsonValue)
    if (cell === '') return column === 'uid' || column === 'dataSource' ? cell : undefined
    if (JSON_COLUMNS.has(column)) return parseJsonObject(cell)
  } catch (error) {
    throw new Error(`${column}: ${(error as Error).message}`)
  }
  if (column === 'substituted') return cell === 'true'
  if (!NUMBERS.has(column)) return cell
  const number = Number(cell)
  if (cell.trim() === '' || !Number.isFinite(number)) {
    throw new Error(`${column}: is not a number but ${JSON.stringify(cell.slice(0, 40))}`)
  }
  return number
}
