import {
  GROUP_SIGNALS,
  type GroupSignal,
  type GroupSignalFilter,
} from '../../contract/group-signal.ts'
import type { ExtraFilter, SampleFilter as WrittenFilter } from '../../contract/sample-filter.ts'
import { readableText } from '../../contract/storable-text.ts'
import { MAX_VERDICTS } from '../../contract/verdicts.ts'
import type { Database } from '../database.ts'
import { type Arg, args } from './args.ts'

/** A filter of samples with a numeric batch id. This file ignores its `text`, which `sample-texts.ts` searches for. */
export interface SampleFilter extends Omit<WrittenFilter, 'batch'> {
  batchId?: number | undefined
}

const MAX_BATCHES = 2_000

/** SQL condition: the roll-up of a batch `b` counts substituted scores. */
const HAS_SUBSTITUTED = `exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = '' and r.substituted > 0)`

/** A batch that may have matching samples. */
export interface CandidateBatch {
  id: number
  samples: number
  /** The day of its texts' partition, `YYYY-MM-DD`. */
  bucket: string
}

/**
 * Batches that may have a matching sample, judging by their counters, roll-ups and keys alone: the newest from `fromId`
 * down, or the oldest from `fromId` up. `nextBatchId` is the first batch beyond the limit, or null if there is none.
 */
export async function candidateBatches(
  db: Database,
  filter: SampleFilter,
  fromId: number | null,
  order: 'newest' | 'oldest' = 'newest',
): Promise<{ batches: CandidateBatch[]; nextBatchId: number | null }> {
  const { values, arg } = args()
  const where = ['b.samples > 0', 'b.samples_removed_at is null']
  if (filter.batchId !== undefined) where.push(`b.id = ${arg(filter.batchId)}`)
  if (fromId !== null) where.push(`b.id ${order === 'newest' ? '<=' : '>='} ${arg(fromId)}`)
  if (filter.run !== undefined)
    where.push(`b.run_id = (select id from run where name = ${arg(filter.run)})`)
  if (filter.stepTo !== undefined) {
    where.push(`b.step between ${arg(filter.step ?? 0)} and ${arg(filter.stepTo)}`)
  } else if (filter.step !== undefined) where.push(`b.step = ${arg(filter.step)}`)
  if (filter.split !== undefined) where.push(`b.split = ${arg(filter.split)}`)
  if (filter.rescored !== undefined) where.push(`b.${isRescored(filter.rescored)}`)
  if (filter.status === 'failed' || filter.reason !== undefined) where.push('b.failed > 0')
  if (filter.status === 'scored' || filter.verdict !== undefined) where.push('b.scored > 0')
  if (filter.status === 'queued' || filter.status === 'running')
    where.push('b.scored + b.failed < b.samples')
  // A batch without a roll-up is not excluded, because any of its samples may match.
  // `min` and `max` exclude substituted scores, so a batch with substituted scores may match too.
  if (filter.scoreMin !== undefined)
    where.push(
      `(not b.rolled_up or b.max is null or b.max >= ${arg(filter.scoreMin)} or ${HAS_SUBSTITUTED})`,
    )
  if (filter.scoreMax !== undefined)
    where.push(
      `(not b.rolled_up or b.min is null or b.min <= ${arg(filter.scoreMax)} or ${HAS_SUBSTITUTED})`,
    )
  if (filter.reason !== undefined) {
    where.push(
      `(not b.rolled_up or exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = '' and r.reasons ? ${arg(filter.reason)}))`,
    )
  }
  if (filter.substituted === true) where.push(`(not b.rolled_up or ${HAS_SUBSTITUTED})`)
  if (filter.verdict !== undefined) {
    // A roll-up names only the most frequent verdicts, and leaves out those of substituted scores.
    where.push(
      `(not b.rolled_up or exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = ''
        and (r.verdicts is null or jsonb_array_length(r.verdicts) >= ${MAX_VERDICTS} or r.substituted > 0
          or ${arg(filter.verdict)} in (select v.verdict from jsonb_to_recordset(r.verdicts) as v(verdict text)))))`,
    )
  }
  if (filter.groupSignal !== undefined) {
    const nonzero = signalsOf(filter.groupSignal).map(
      (signal) => `(b.group_signals ->> ${arg(signal)})::int > 0`,
    )
    where.push(`(${nonzero.join(' or ')})`)
  }
  if (filter.dataSource !== undefined) {
    // With more than 64 data sources, the smaller ones have no roll-up.
    where.push(
      `(not b.rolled_up or exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = ${arg(filter.dataSource)})
        or (select count(*) from batch_roll_up r where r.batch_id = b.id) > 64)`,
    )
  }
  if (filter.uid !== undefined) {
    where.push(
      `exists (select 1 from sample_group g where g.batch_id = b.id and g.uid = ${arg(filter.uid)})`,
    )
  }
  for (const extra of filter.extra ?? []) {
    where.push(
      `(not exists (select 1 from batch_extra_key k where k.batch_id = b.id and k.key = '')
        or exists (select 1 from batch_extra_key k where k.batch_id = b.id and k.key = ${arg(readableText(extra.key))} and ${rangeOf(extra, arg)}))`,
    )
  }
  if (filter.label !== undefined) {
    where.push(
      `exists (select 1 from sample_annotation a where a.batch_id = b.id and a.label = ${arg(filter.label)})`,
    )
  } else if (filter.annotated === true) {
    where.push('exists (select 1 from sample_annotation a where a.batch_id = b.id)')
  }
  const rows = await db.adhoc<CandidateBatch>(
    `select b.id, b.samples, b.text_bucket::text as bucket from batch b where ${where.join(' and ')}
     order by b.id ${order === 'newest' ? 'desc' : 'asc'} limit ${arg(MAX_BATCHES + 1)}`,
    values,
  )
  return { batches: rows.slice(0, MAX_BATCHES), nextBatchId: rows[MAX_BATCHES]?.id ?? null }
}

function signalsOf(filter: GroupSignalFilter): GroupSignal[] {
  return filter === 'no_signal' ? GROUP_SIGNALS.filter((signal) => signal !== 'varied') : [filter]
}

export function isRescored(rescored: boolean): string {
  return `rescored_from is ${rescored ? 'not null' : 'null'}`
}

/** SQL condition: a sample of the batch may match `extra`, judging by the roll-up of its key. */
function rangeOf(extra: ExtraFilter, arg: Arg): string {
  if (extra.is === 'present') return 'true'
  if (extra.is === 'boolean') return 'k.booleans > 0'
  if (extra.is === 'text') return 'k.texts > 0'
  const parts = ['k.numbers > 0']
  if (extra.min !== undefined) parts.push(`(k.max is null or k.max >= ${arg(extra.min)})`)
  if (extra.max !== undefined) parts.push(`(k.min is null or k.min <= ${arg(extra.max)})`)
  return parts.join(' and ')
}

/** The filter's conditions on a sample `s` of the candidate batches, as SQL, except for the text. */
export class SampleConditions {
  readonly values: unknown[] = []
  #sql = ''
  joins = ''
  /** True if every sample of the batches matches. */
  all = true

  constructor(filter: SampleFilter) {
    const { uid, groupSignal } = filter
    if (uid !== undefined || groupSignal !== undefined) {
      this.all = false
      this.joins = 'join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no'
      if (uid !== undefined) this.joins += ` and g.uid = ${this.value(uid)}`
      if (groupSignal !== undefined)
        this.joins += ` and g.signal = any(${this.value(signalsOf(groupSignal))}::text[])`
    }
    if (filter.dataSource !== undefined) {
      this.and(`s.data_source = ${this.value(filter.dataSource)}`)
    }
    if (filter.status === 'scored') this.and('s.status = 2')
    if (filter.status === 'failed') this.and('s.status = 3')
    if (filter.status === 'queued' || filter.status === 'running') {
      const held =
        'exists (select 1 from claim c where c.batch_id = s.batch_id and s.idx between c.first_idx and c.last_idx)'
      // Status 1: waiting for the group's post-processing.
      this.and(
        filter.status === 'running'
          ? `s.status < 2 and (s.status = 1 or ${held})`
          : `s.status = 0 and not ${held}`,
      )
    }
    if (filter.reason !== undefined) this.and(`s.reason = ${this.value(filter.reason)}`)
    if (filter.verdict !== undefined) {
      this.and(`s.status = 2 and s.verdict = ${this.value(filter.verdict)}`)
    }
    if (filter.failedToolCall !== undefined) {
      this.and(`coalesce(s.failed_tool_calls, 0) ${filter.failedToolCall ? '> 0' : '= 0'}`)
    }
    if (filter.server !== undefined) {
      this.and(
        `s.server_id = any(array(select id from server where name = ${this.value(filter.server)}))`,
      )
    }
    if (filter.scoreMin !== undefined) this.and(`s.score >= ${this.value(filter.scoreMin)}`)
    if (filter.scoreMax !== undefined) this.and(`s.score <= ${this.value(filter.scoreMax)}`)
    if (filter.lengthMin !== undefined)
      this.and(`s.response_length >= ${this.value(filter.lengthMin)}::float8`)
    if (filter.lengthMax !== undefined)
      this.and(`s.response_length <= ${this.value(filter.lengthMax)}::float8`)
    if (filter.attemptsMin !== undefined)
      this.and(`s.attempts >= ${this.value(filter.attemptsMin)}::float8`)
    if (filter.substituted !== undefined)
      this.and(filter.substituted ? 's.substituted' : 'not s.substituted')
    const annotation =
      'select 1 from sample_annotation a where a.batch_id = s.batch_id and a.idx = s.idx'
    if (filter.label !== undefined)
      this.and(`exists (${annotation} and a.label = ${this.value(filter.label)})`)
    if (filter.annotated !== undefined)
      this.and(`${filter.annotated ? '' : 'not '}exists (${annotation})`)
    for (const extra of filter.extra ?? []) this.and(this.#extra(extra))
  }

  /** The conditions to append to `where …`: empty, or beginning with `and`. */
  get sql(): string {
    return this.#sql
  }

  value(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }

  and(condition: string): void {
    this.all = false
    this.#sql += ` and ${condition}`
  }

  #extra(extra: ExtraFilter): string {
    const name = this.value(readableText(extra.key))
    const doc = 'readable_json(s.reward_extra)'
    const type = `json_typeof(${doc} -> ${name}::text)`
    const text = `(${doc} ->> ${name}::text)`
    if (extra.is === 'present') return `${type} <> 'null'`
    if (extra.is === 'boolean') return `${type} = 'boolean' and ${text} = '${extra.value}'`
    if (extra.is === 'text')
      return `${type} = 'string' and ${text} = ${this.value(readableText(extra.value))}`
    // `case` ensures that only numbers are converted. The type is `numeric`, because JSON may have a number beyond the
    // range of a double.
    const parts = [
      ...(extra.min === undefined ? [] : [`>= ${this.value(String(extra.min))}::numeric`]),
      ...(extra.max === undefined ? [] : [`<= ${this.value(String(extra.max))}::numeric`]),
    ]
    if (parts.length === 0) return `${type} = 'number'`
    return `case when ${type} = 'number' then ${parts.map((part) => `${text}::numeric ${part}`).join(' and ')} else false end`
  }
}
