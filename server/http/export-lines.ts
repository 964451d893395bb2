import {
  EXPORTED_RESULT_COLUMNS,
  EXPORTED_ROLLOUT_COLUMNS,
  groundTruthCell,
  promptCell,
  quoted,
  textCell,
  withoutFormulas,
} from '../contract/csv-cells.ts'
import { EXTRA_COLUMN, type ExportFormat } from '../contract/export.ts'
import { responseText } from '../contract/turn-text.ts'
import type { AnnotationRow } from '../store/sql/annotations.ts'
import type { ExportedBatch, ExportedRow } from '../store/sql/export.ts'
import { statusOf } from '../store/sql/results.ts'
import { textsAsJson } from '../store/stored-texts.ts'

/** Writes samples in one format. */
interface LineWriter {
  contentType: string
  /** Text before the first sample; a resumed export omits it. */
  head: string
  /** A sample as text, with its line end. */
  line(batch: ExportedBatch, row: ExportedRow, annotations: readonly AnnotationRow[]): string
}

const USUAL = [...EXPORTED_ROLLOUT_COLUMNS, ...EXPORTED_RESULT_COLUMNS] as const

/**
 * The writer of a format. `columns` selects and orders the columns; without it, all but `annotations` are written.
 * `isSafe`: spreadsheets evaluate no cell of CSV.
 */
export function lineWriter(
  format: ExportFormat,
  columns: readonly string[] | undefined,
  isSafe: boolean,
): LineWriter {
  if (format === 'verl') return { contentType: 'application/x-ndjson', head: '', line: verlLine }
  if (format === 'csv') {
    const names = columns ?? USUAL
    return {
      contentType: 'text/csv; charset=utf-8',
      head: `${names.map(quoted).join(',')}\r\n`,
      line: (batch, row, annotations) => csvLine(names, isSafe, batch, row, annotations),
    }
  }
  return {
    contentType: 'application/x-ndjson',
    head: '',
    line:
      columns === undefined
        ? jsonLine
        : (batch, row, annotations) => chosenJsonLine(columns, batch, row, annotations),
  }
}

/** A sample as JSON. Stored JSON is copied unparsed, because parsing costs twice as much and may change numbers. */
function jsonLine(batch: ExportedBatch, row: ExportedRow): string {
  const texts = textsAsJson(row)
  const given = [
    row.prompt_id === null ? '' : `,"promptId":${JSON.stringify(row.prompt_id)}`,
    texts.groundTruth === null ? '' : `,"groundTruth":${oneLine(texts.groundTruth)}`,
    texts.extraInfo === null ? '' : `,"extraInfo":${oneLine(texts.extraInfo)}`,
    row.response_length === null ? '' : `,"responseLength":${row.response_length}`,
  ].join('')
  return (
    `{"run":${JSON.stringify(batch.run)},"step":${batch.step},"split":"${batch.split}"` +
    `,"batchId":"b${batch.id}","index":${row.idx}` +
    `,"uid":${JSON.stringify(row.uid)},"dataSource":${JSON.stringify(row.data_source)}` +
    `,"prompt":${texts.prompt},"response":${texts.response}${given}` +
    `,"score":${JSON.stringify(row.score)},"status":"${statusOf({ status: row.status, held: false })}"` +
    `,"reason":${JSON.stringify(row.reason)},"rawScore":${JSON.stringify(row.raw_score)}` +
    `,"substituted":${row.substituted},"rewardExtraInfo":${oneLine(row.reward_extra ?? '{}')}` +
    `,"verdict":${JSON.stringify(row.verdict)},"extracted":${JSON.stringify(row.extracted)}` +
    (row.rewards === null ? '' : `,"rewards":${oneLine(row.rewards)}`) +
    `,"queueMs":${JSON.stringify(row.queue_ms)},"scoreMs":${JSON.stringify(row.score_ms)}` +
    `,"attempts":${row.attempts},"serverName":${JSON.stringify(row.server_name)}` +
    `,"submittedAt":"${batch.submitted_at}","dispatchedAt":${JSON.stringify(row.dispatched_at)}` +
    `,"endedAt":${JSON.stringify(row.ended_at)},"groupSeq":${row.group_seq}` +
    `,"groupCompletedAt":${JSON.stringify(row.group_completed_at)}` +
    `,"batchCompletedAt":${JSON.stringify(batch.completed_at)}}\n`
  )
}

/** The selected columns as JSON; missing values are null. */
function chosenJsonLine(
  columns: readonly string[],
  batch: ExportedBatch,
  row: ExportedRow,
  annotations: readonly AnnotationRow[],
): string {
  const texts = textsAsJson(row)
  const plain: Record<string, unknown> = plainCells(batch, row)
  const extra = chosenExtra(columns, row)
  const stored: Record<string, string | null> = {
    prompt: texts.prompt,
    response: texts.response,
    groundTruth: texts.groundTruth,
    extraInfo: texts.extraInfo,
    rewardExtraInfo: row.reward_extra ?? '{}',
    rewards: row.rewards,
    annotations: JSON.stringify(annotations.map(annotationOf)),
  }
  const json = (name: string) =>
    extra.has(name)
      ? JSON.stringify(extra.get(name) ?? null)
      : name in stored
        ? oneLine(stored[name] ?? 'null')
        : JSON.stringify(plain[name] ?? null)
  return `{${columns.map((name) => `${JSON.stringify(name)}:${json(name)}`).join(',')}}\n`
}

function csvLine(
  columns: readonly string[],
  isSafe: boolean,
  batch: ExportedBatch,
  row: ExportedRow,
  annotations: readonly AnnotationRow[],
): string {
  const texts = textsAsJson(row)
  const cells: Record<string, string | number | boolean | null> = {
    ...plainCells(batch, row),
    prompt: promptCell(texts.prompt),
    response: textCell(texts.response),
    groundTruth: groundTruthCell(texts.groundTruth),
    extraInfo: texts.extraInfo,
    rewardExtraInfo: row.reward_extra,
    rewards: row.rewards,
    annotations: annotations.length === 0 ? null : JSON.stringify(annotations.map(annotationOf)),
  }
  const extra = chosenExtra(columns, row)
  return `${columns
    .map((name) => {
      const cell = extra.has(name) ? extraCell(extra.get(name)) : (cells[name] ?? null)
      if (typeof cell !== 'string') return cell === null ? '' : String(cell)
      return quoted(isSafe ? withoutFormulas(cell) : cell)
    })
    .join(',')}\r\n`
}

/** The cells that are neither texts nor JSON. */
function plainCells(
  batch: ExportedBatch,
  row: ExportedRow,
): Record<string, string | number | boolean | null> {
  return {
    run: batch.run,
    step: batch.step,
    split: batch.split,
    batchId: `b${batch.id}`,
    index: row.idx,
    uid: row.uid,
    dataSource: row.data_source,
    promptId: row.prompt_id,
    responseLength: row.response_length,
    score: row.score,
    status: statusOf({ status: row.status, held: false }),
    reason: row.reason,
    rawScore: row.raw_score,
    substituted: row.substituted,
    verdict: row.verdict,
    extracted: row.extracted,
    queueMs: row.queue_ms,
    scoreMs: row.score_ms,
    attempts: row.attempts,
    serverName: row.server_name,
    submittedAt: batch.submitted_at,
    dispatchedAt: row.dispatched_at,
    endedAt: row.ended_at,
    groupSeq: row.group_seq,
    groupCompletedAt: row.group_completed_at,
    batchCompletedAt: batch.completed_at,
  }
}

/** Values of the selected columns of the extra info, by column. The extra info is parsed only if one is selected. */
function chosenExtra(columns: readonly string[], row: ExportedRow): ReadonlyMap<string, unknown> {
  const chosen = columns.filter((name) => name.startsWith(EXTRA_COLUMN))
  if (chosen.length === 0) return new Map()
  const extra: Record<string, unknown> = JSON.parse(row.reward_extra ?? '{}')
  return new Map(
    chosen.map((name) => {
      const key = name.slice(EXTRA_COLUMN.length)
      return [name, Object.hasOwn(extra, key) ? extra[key] : undefined]
    }),
  )
}

/** A value of the extra info as a cell: strings unchanged, everything else as JSON. */
function extraCell(value: unknown): string | null {
  if (value === undefined || value === null) return null
  return typeof value === 'string' ? textCell(JSON.stringify(value)) : JSON.stringify(value)
}

function annotationOf({ label, note, author, created_at }: AnnotationRow) {
  return { label, note, author, createdAt: created_at.toISOString() }
}

/** Columns of verl's dump that are always filled; an extra column of the same name is left out. */
const DUMP_COLUMNS = new Set([
  'input',
  'output',
  'gts',
  'score',
  'step',
  'uid',
  'data_source',
  'sample_id',
])

/**
 * A sample in the format of verl's step dumps. The prompt is text there, so chat messages are written as JSON; `uid` has
 * the form of verl's validation, `<uid>_<session>_<index>`.
 */
function verlLine(batch: ExportedBatch, row: ExportedRow): string {
  const texts = textsAsJson(row)
  const messages = texts.prompt.startsWith('[')
  // verl decodes all turns of a trajectory to one text.
  const output = texts.response.startsWith('[')
    ? JSON.stringify(responseText(JSON.parse(texts.response)))
    : texts.response
  const columns = {
    ...extraColumns(texts.extraInfo),
    ...extraColumns(row.reward_extra),
  }
  const more = Object.entries(columns)
    .map(([key, value]) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`)
    .join('')
  return (
    `{"input":${messages ? JSON.stringify(texts.prompt) : texts.prompt},"output":${output}` +
    `,"gts":${oneLine(texts.groundTruth ?? 'null')},"score":${JSON.stringify(row.score)},"step":${batch.step}` +
    `,"uid":${JSON.stringify(`${row.uid}_0_${row.idx}`)},"data_source":${JSON.stringify(row.data_source)}` +
    `${more},"sample_id":"b${batch.id}-${row.idx}"}\n`
  )
}

function extraColumns(json: string | null): Record<string, unknown> {
  const columns = json === null ? {} : (JSON.parse(json) as Record<string, unknown>)
  return Object.fromEntries(Object.entries(columns).filter(([key]) => !DUMP_COLUMNS.has(key)))
}

/** JSON on one line. JSON returned by a function may have line ends between its tokens. */
function oneLine(json: string): string {
  return /[\r\n]/.test(json) ? JSON.stringify(JSON.parse(json)) : json
}
