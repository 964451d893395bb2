import {
  EXPORTED_RESULT_COLUMNS,
  EXPORTED_ROLLOUT_COLUMNS,
  quoted,
  withoutFormulas,
} from '../contract/csv-cells.ts'
import type { ExportQuery } from '../contract/export.ts'
import { PROMPT_FIELDS, RESPONSE_FIELDS, type SampleFieldName } from '../contract/sample-fields.ts'
import { responseText } from '../contract/turn-text.ts'
import type { AnnotationRow } from '../store/sql/annotations.ts'
import type { ExportedBatch, ExportedRow } from '../store/sql/export.ts'
import { statusOf } from '../store/sql/results.ts'
import { textsAsJson } from '../store/stored-texts.ts'
import { annotationOf, cellsOf, chosenExtra, type ExportPage, plainCells } from './export-cells.ts'
import { ParquetEncoder } from './parquet-encoder.ts'

export interface ExportWriter {
  contentType: string
  /** Extension of the file, without a dot. */
  ending: string
  /** Text before the first sample; a resumed export omits it. */
  head: string
  /** Adds a page of samples. Returns the bytes of the file that are then complete, which may be none. */
  page(page: ExportPage): string | Promise<Uint8Array>
  end(): string | Promise<Uint8Array>
  close(): Promise<void>
}

type WriteLine = (
  batch: ExportedBatch,
  row: ExportedRow,
  annotations: readonly AnnotationRow[],
) => string

const USUAL = [...EXPORTED_ROLLOUT_COLUMNS, ...EXPORTED_RESULT_COLUMNS] as const

/**
 * Returns the writer of an export. `columns` of the query selects and orders the columns. By default, all columns
 * except `annotations` are written.
 */
export function exportWriter({ format, columns, safe }: ExportQuery): ExportWriter {
  if (format === 'parquet') {
    const encoder = new ParquetEncoder(columns ?? USUAL)
    return {
      contentType: 'application/vnd.apache.parquet',
      ending: 'parquet',
      head: '',
      page: (page) => encoder.page(page),
      end: () => encoder.end(),
      close: () => encoder.close(),
    }
  }
  if (format === 'csv') {
    const names = columns ?? USUAL
    const isSafe = safe !== undefined
    return {
      ...ofLines((...sample) => csvLine(names, isSafe, ...sample)),
      contentType: 'text/csv; charset=utf-8',
      ending: 'csv',
      head: `${names.map(quoted).join(',')}\r\n`,
    }
  }
  if (format === 'verl') return ofLines(verlLine)
  return ofLines(
    columns === undefined ? jsonLine : (...sample) => chosenJsonLine(columns, ...sample),
  )
}

function ofLines(line: WriteLine): ExportWriter {
  return {
    contentType: 'application/x-ndjson',
    ending: 'jsonl',
    head: '',
    page({ batch, rows, annotations }) {
      let text = ''
      for (const row of rows) text += line(batch, row, annotations.get(row.idx) ?? [])
      return text
    },
    end: () => '',
    close: async () => {},
  }
}

/** A sample as JSON. Stored JSON is copied, because parsing takes twice as long as copying and may change numbers. */
function jsonLine(batch: ExportedBatch, row: ExportedRow): string {
  const texts = textsAsJson(row)
  const given = [
    ...givenFields(row, PROMPT_FIELDS),
    texts.groundTruth === null ? '' : `,"groundTruth":${oneLine(texts.groundTruth)}`,
    texts.extraInfo === null ? '' : `,"extraInfo":${oneLine(texts.extraInfo)}`,
    ...givenFields(row, RESPONSE_FIELDS),
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

function givenFields(row: ExportedRow, names: readonly SampleFieldName[]): string[] {
  return names.map((name) => (row[name] === null ? '' : `,"${name}":${JSON.stringify(row[name])}`))
}

function chosenJsonLine(
  columns: readonly string[],
  batch: ExportedBatch,
  row: ExportedRow,
  annotations: readonly AnnotationRow[],
): string {
  const texts = textsAsJson(row)
  const plain = plainCells(batch, row)
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
  return `${cellsOf(columns, batch, row, annotations)
    .map((cell) => {
      if (typeof cell !== 'string') return cell === null ? '' : String(cell)
      return quoted(isSafe ? withoutFormulas(cell) : cell)
    })
    .join(',')}\r\n`
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
 * A sample in the format of verl's step dumps, which have the prompt as text. Chat messages are therefore written as
 * JSON. `uid` has the form of verl's validation, `<uid>_<session>_<index>`. The dump has no column that marks a
 * substituted score, so such a score is left out: an import would take it for a score that the reward gave.
 */
function verlLine(batch: ExportedBatch, row: ExportedRow): string {
  const texts = textsAsJson(row)
  const score = row.substituted ? null : row.score
  const messages = texts.prompt.startsWith('[')
  // verl decodes all turns of a trajectory into one string.
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
    `,"gts":${oneLine(texts.groundTruth ?? 'null')},"score":${JSON.stringify(score)},"step":${batch.step}` +
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
