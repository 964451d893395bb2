/**
 * Values in the cells of our CSV (RFC 4180), read back as the very same values. A cell is the text itself; a value that is
 * no text, or that CSV in UTF-8 cannot hold (NUL, lone surrogates), is JSON behind `json:`. JSON objects, arrays and chat
 * messages may also stand there bare, as other programs write them.
 */

/** In front of JSON. A text that itself begins so is written as a JSON string. */
const MARK = 'json:'

/** Columns of a rollout, in the order they are written; `import` takes them in any order and needs those of {@link NEEDED}. */
export const ROLLOUT_COLUMNS = [
  'run',
  'step',
  'split',
  'batchId',
  'index',
  'uid',
  'dataSource',
  'prompt',
  'response',
  'groundTruth',
  'extraInfo',
  'responseLength',
  'score',
] as const

/** Columns a CSV of rollouts must have. */
export const NEEDED_COLUMNS = ['uid', 'dataSource', 'prompt', 'response'] as const

/** Columns of a result, after those of the rollout. */
export const RESULT_COLUMNS = [
  'status',
  'reason',
  'rawScore',
  'substituted',
  'rewardExtraInfo',
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

/** A cell with the quotes RFC 4180 asks for. */
export function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** The cell of a response, given as JSON text. */
export function textCell(json: string): string {
  if (!json.startsWith('"')) return `${MARK}${json}`
  const text = JSON.parse(json) as string
  return isPlain(text) ? text : `${MARK}${json}`
}

/** The cell of a prompt, given as JSON text: a string, or chat messages. */
export function promptCell(json: string): string {
  if (!json.startsWith('"')) return isMessages(json) ? json : `${MARK}${json}`
  const text = JSON.parse(json) as string
  return isPlain(text) && !isMessages(text) ? text : `${MARK}${json}`
}

/** The cell of a ground truth, given as JSON text; null: there is none, and the cell is empty. */
export function groundTruthCell(json: string | null): string {
  if (json === null) return ''
  if (!json.startsWith('"')) return isContainer(json) ? json : `${MARK}${json}`
  const text = JSON.parse(json) as string
  return text !== '' && isPlain(text) && !isContainer(text) ? text : `${MARK}${json}`
}

/** How JSON is parsed: a reader may refuse what JavaScript would round. */
type Parse = (json: string) => unknown

/** The prompt of a cell. @throws what `parse` throws */
export function readPromptCell(cell: string, parse: Parse): unknown {
  if (cell.startsWith(MARK)) return parse(cell.slice(MARK.length))
  return isMessages(cell) ? parse(cell) : cell
}

/** The response of a cell. @throws what `parse` throws */
export function readTextCell(cell: string, parse: Parse): unknown {
  return cell.startsWith(MARK) ? parse(cell.slice(MARK.length)) : cell
}

/** The ground truth of a cell; undefined for an empty one. @throws what `parse` throws */
export function readGroundTruthCell(cell: string, parse: Parse): unknown {
  if (cell === '') return undefined
  if (cell.startsWith(MARK)) return parse(cell.slice(MARK.length))
  return isContainer(cell) ? parse(cell) : cell
}

function isPlain(text: string): boolean {
  return text.isWellFormed() && !text.includes('\u0000') && !text.startsWith(MARK)
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

/** Whether a text is a list of chat messages: each an object with a role. */
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
