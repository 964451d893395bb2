import type { ExportedBatch, ExportedRow } from '../store/sql/export.ts'
import { statusOf } from '../store/sql/results.ts'
import { textsAsJson } from '../store/stored-texts.ts'
import {
  groundTruthCell,
  promptCell,
  quoted,
  RESULT_COLUMNS,
  ROLLOUT_COLUMNS,
  TEXT_COLUMNS,
  textCell,
} from '../wire/csv-cells.ts'
import type { ExportFormat } from '../wire/export.ts'

/** How samples are written in one format. */
interface LineWriter {
  contentType: string
  /** What stands before the first row; `after` a resumed export has it already. */
  head(withTexts: boolean): string
  /** A sample, its line end included. */
  line(batch: ExportedBatch, row: ExportedRow, withTexts: boolean): string
}

/** The writers, by format. */
export const LINE_WRITERS: Record<ExportFormat, LineWriter> = {
  jsonl: { contentType: 'application/x-ndjson', head: () => '', line: jsonLine },
  csv: {
    contentType: 'text/csv; charset=utf-8',
    head: (withTexts) => `${columnsOf(withTexts).join(',')}\r\n`,
    line: csvLine,
  },
  verl: { contentType: 'application/x-ndjson', head: () => '', line: verlLine },
}

/** Stored JSON is put in as it is: parsed and written anew it would cost twice as much, and numbers might change. */
function jsonLine(batch: ExportedBatch, row: ExportedRow, withTexts: boolean): string {
  const texts = textsAsJson(row)
  const given = [
    withTexts ? `,"prompt":${texts.prompt},"response":${texts.response}` : '',
    texts.groundTruth === null ? '' : `,"groundTruth":${oneLine(texts.groundTruth)}`,
    texts.extraInfo === null ? '' : `,"extraInfo":${oneLine(texts.extraInfo)}`,
    row.response_length === null ? '' : `,"responseLength":${row.response_length}`,
  ].join('')
  return (
    `{"run":${JSON.stringify(batch.run)},"step":${batch.step},"split":"${batch.split}"` +
    `,"batchId":"b${batch.id}","index":${row.idx}` +
    `,"uid":${JSON.stringify(row.uid)},"dataSource":${JSON.stringify(row.data_source)}` +
    given +
    `,"score":${JSON.stringify(row.score)},"status":"${statusOf({ status: row.status, held: false })}"` +
    `,"reason":${JSON.stringify(row.reason)},"rawScore":${JSON.stringify(row.raw_score)}` +
    `,"substituted":${row.substituted},"rewardExtraInfo":${oneLine(row.reward_extra ?? '{}')}` +
    `,"queueMs":${JSON.stringify(row.queue_ms)},"scoreMs":${JSON.stringify(row.score_ms)}` +
    `,"attempts":${row.attempts},"serverName":${JSON.stringify(row.server_name)}` +
    `,"submittedAt":"${batch.submitted_at}","dispatchedAt":${JSON.stringify(row.dispatched_at)}` +
    `,"endedAt":${JSON.stringify(row.ended_at)},"groupSeq":${row.group_seq}` +
    `,"groupCompletedAt":${JSON.stringify(row.group_completed_at)}` +
    `,"batchCompletedAt":${JSON.stringify(batch.completed_at)}}\n`
  )
}

const ALL_COLUMNS = [...ROLLOUT_COLUMNS, ...RESULT_COLUMNS] as const
const COLUMNS_WITHOUT_TEXTS = ALL_COLUMNS.filter((column) => !TEXT_COLUMNS.has(column))

function columnsOf(withTexts: boolean) {
  return withTexts ? ALL_COLUMNS : COLUMNS_WITHOUT_TEXTS
}

function csvLine(batch: ExportedBatch, row: ExportedRow, withTexts: boolean): string {
  const texts = textsAsJson(row)
  const cells: Record<(typeof ALL_COLUMNS)[number], string | number | boolean | null> = {
    run: batch.run,
    step: batch.step,
    split: batch.split,
    batchId: `b${batch.id}`,
    index: row.idx,
    uid: row.uid,
    dataSource: row.data_source,
    prompt: promptCell(texts.prompt),
    response: textCell(texts.response),
    groundTruth: groundTruthCell(texts.groundTruth),
    extraInfo: texts.extraInfo,
    responseLength: row.response_length,
    score: row.score,
    status: statusOf({ status: row.status, held: false }),
    reason: row.reason,
    rawScore: row.raw_score,
    substituted: row.substituted,
    rewardExtraInfo: row.reward_extra,
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
  return `${columnsOf(withTexts)
    .map((column) => quoted(cells[column] === null ? '' : String(cells[column])))
    .join(',')}\r\n`
}

/** Columns of a dump that are ours to fill: an extra column of this name gives way. */
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
 * As upstream dumps a step. The prompt is text there, so chat messages are written as their JSON; `uid` has the form that
 * upstream's validation gives it, `<uid>_<session>_<index>`.
 */
function verlLine(batch: ExportedBatch, row: ExportedRow): string {
  const texts = textsAsJson(row)
  const messages = texts.prompt.startsWith('[')
  const columns = {
    ...extraColumns(texts.extraInfo),
    ...extraColumns(row.reward_extra),
  }
  const more = Object.entries(columns)
    .map(([key, value]) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`)
    .join('')
  return (
    `{"input":${messages ? JSON.stringify(texts.prompt) : texts.prompt},"output":${texts.response}` +
    `,"gts":${oneLine(texts.groundTruth ?? 'null')},"score":${JSON.stringify(row.score)},"step":${batch.step}` +
    `,"uid":${JSON.stringify(`${row.uid}_0_${row.idx}`)},"data_source":${JSON.stringify(row.data_source)}` +
    `${more},"sample_id":"b${batch.id}-${row.idx}"}\n`
  )
}

function extraColumns(json: string | null): Record<string, unknown> {
  const columns = json === null ? {} : (JSON.parse(json) as Record<string, unknown>)
  return Object.fromEntries(Object.entries(columns).filter(([key]) => !DUMP_COLUMNS.has(key)))
}

/** JSON that a function returned may have line ends between its tokens; in a line there is no place for them. */
function oneLine(json: string): string {
  return /[\r\n]/.test(json) ? JSON.stringify(JSON.parse(json)) : json
}
