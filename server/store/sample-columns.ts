import {
  DETAIL_FIELDS,
  fieldOf,
  type SampleFieldName,
  snakeCase,
} from '../contract/sample-fields.ts'
import type { SampleInput } from '../contract/trainer.ts'
import { failedToolCalls } from '../contract/turn-text.ts'
import type { EncodedTexts } from './stored-texts.ts'

/** A column's type, in SQL and in binary COPY. */
export type ColumnType = 'int2' | 'int4' | 'text' | 'json'
export type ColumnValue = string | number | null

export interface Column<Source> {
  name: string
  type: ColumnType
  of: (source: Source) => ColumnValue
  /** The column describes a score, so a rescore does not copy it. */
  isResult?: true
  /**
   * The column is derived from the texts. A sample stored by an earlier version may lack it, so a repeated append does
   * not compare it.
   */
  isDerived?: true
}

/**
 * The columns of `sample` that hold the trainer's data. Every writer (COPY, append_singles, rescore) is built from this
 * list. A given score is not in the list: each writer derives status, score, raw_score and ended_at from it.
 */
export const WRITTEN_SAMPLE_COLUMNS: readonly Column<SampleInput>[] = [
  { name: 'data_source', type: 'text', of: (sample) => sample.dataSource },
  ...DETAIL_FIELDS.map(fieldColumn),
  {
    name: 'failed_tool_calls',
    type: 'int2',
    of: ({ response }) => failedToolCalls(response),
    isDerived: true,
  },
  { name: 'reward_extra', type: 'json', of: rewardExtraJson, isResult: true },
  { name: 'verdict', type: 'text', of: (sample) => sample.verdict ?? null, isResult: true },
  { name: 'extracted', type: 'text', of: (sample) => sample.extracted ?? null, isResult: true },
  { name: 'rewards', type: 'json', of: rewardsJson, isResult: true },
]

export const RESCORED_SAMPLE_COLUMNS = WRITTEN_SAMPLE_COLUMNS.filter((column) => !column.isResult)

/**
 * The columns of `sample_text` besides its key. Every writer (COPY, append_singles, rescore) is built from this list.
 */
export const WRITTEN_TEXT_COLUMNS: readonly Column<EncodedTexts>[] = [
  { name: 'prompt', type: 'text', of: (texts) => texts.prompt },
  { name: 'response', type: 'text', of: (texts) => texts.response },
  { name: 'ground_truth', type: 'text', of: (texts) => texts.groundTruth },
  { name: 'extra_info', type: 'text', of: (texts) => texts.extraInfo },
  { name: 'encoding', type: 'int2', of: (texts) => texts.encoding },
]

/** The names of columns as a list in SQL: `prompt, response, …`, or with the prefix `t.`, `t.prompt, t.response, …`. */
export function columnNames(columns: readonly { name: string }[], prefix = ''): string {
  return columns.map(({ name }) => prefix + name).join(', ')
}

/** SQL that selects fields of a sample under their names: `s.response_length as "responseLength", …`. */
export function selectFields(names: readonly SampleFieldName[], prefix = ''): string {
  return names.map((name) => `${prefix}${snakeCase(name)} as "${name}"`).join(', ')
}

function fieldColumn(name: SampleFieldName): Column<SampleInput> {
  const type = fieldOf(name).type === 'integer' ? 'int4' : 'text'
  return { name: snakeCase(name), type, of: (sample) => sample[name] ?? null }
}

function rewardExtraJson({ rewardExtraInfo }: SampleInput): string | null {
  if (rewardExtraInfo == null || Object.keys(rewardExtraInfo).length === 0) return null
  return JSON.stringify(rewardExtraInfo)
}

function rewardsJson({ rewards }: SampleInput): string | null {
  return rewards == null ? null : JSON.stringify(rewards)
}
