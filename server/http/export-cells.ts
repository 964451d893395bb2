import { groundTruthCell, promptCell, textCell } from '../contract/csv-cells.ts'
import { EXTRA_COLUMN } from '../contract/export.ts'
import { DETAIL_FIELDS, withFields } from '../contract/sample-fields.ts'
import type { AnnotationRow } from '../store/sql/annotations.ts'
import type { ExportedBatch, ExportedRow } from '../store/sql/export.ts'
import { statusOf } from '../store/sql/results.ts'
import { textsAsJson } from '../store/stored-texts.ts'

/** A cell of a CSV or Parquet file. Null if the sample has no such value. */
export type Cell = string | number | boolean | null

export interface ExportPage {
  batch: ExportedBatch
  rows: ExportedRow[]
  /** Annotations by sample index. */
  annotations: ReadonlyMap<number, AnnotationRow[]>
}

/** The cells of a sample in the given columns. Values without a fixed type are text as in `contract/csv-cells.ts`. */
export function cellsOf(
  columns: readonly string[],
  batch: ExportedBatch,
  row: ExportedRow,
  annotations: readonly AnnotationRow[],
): Cell[] {
  const texts = textsAsJson(row)
  const cells: Record<string, Cell> = {
    ...plainCells(batch, row),
    prompt: promptCell(texts.prompt),
    response: textCell(texts.response),
    groundTruth: texts.groundTruth === null ? null : groundTruthCell(texts.groundTruth),
    extraInfo: texts.extraInfo,
    rewardExtraInfo: row.reward_extra,
    rewards: row.rewards,
    annotations: annotations.length === 0 ? null : JSON.stringify(annotations.map(annotationOf)),
  }
  const extra = chosenExtra(columns, row)
  return columns.map((name) =>
    extra.has(name) ? extraCell(extra.get(name)) : (cells[name] ?? null),
  )
}

/** The cells that are neither texts nor JSON. */
export function plainCells(batch: ExportedBatch, row: ExportedRow): Record<string, Cell> {
  const cells = {
    run: batch.run,
    step: batch.step,
    split: batch.split,
    batchId: `b${batch.id}`,
    index: row.idx,
    uid: row.uid,
    dataSource: row.data_source,
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
  return withFields(cells, row, DETAIL_FIELDS)
}

/** Values of the selected extra-info columns, by column name. */
export function chosenExtra(
  columns: readonly string[],
  row: ExportedRow,
): ReadonlyMap<string, unknown> {
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

export function annotationOf({ label, note, author, created_at }: AnnotationRow) {
  return { label, note, author, createdAt: created_at.toISOString() }
}
