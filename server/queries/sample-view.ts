import { toAnnotation } from '../batches/annotations.ts'
import { batchNumber, sampleKey } from '../batches/batch-reader.ts'
import { lacksCorrectness, memberOf } from '../batches/group-reports.ts'
import { withoutCorrectness } from '../contract/group-signal.ts'
import type {
  AttemptDto,
  SampleDetailDto,
  SampleDetailInput,
  SampleFacetsDto,
  SampleFacetsInput,
  SampleListInput,
  SamplePageDto,
  SampleRowDto,
} from '../contract/pages.ts'
import type { SamplesByBatchDto } from '../contract/rescore.ts'
import { rewardVersionOf } from '../contract/resolved-reward.ts'
import type {
  ExtraKeysDto,
  ExtraKeysInput,
  FirstLinesDto,
  SampleCountDto,
} from '../contract/sample-extras.ts'
import { DETAIL_FIELDS, ROW_FIELDS, withFields } from '../contract/sample-fields.ts'
import type { SampleFilter } from '../contract/sample-filter.ts'
import { responseText } from '../contract/turn-text.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import { groupReport } from '../rewards/group-report.ts'
import type { Database } from '../store/database.ts'
import { toDto } from '../store/row-of.ts'
import { annotationsOf } from '../store/sql/annotations.ts'
import {
  attemptsOf,
  groupMembers,
  type SampleDetailRow,
  type SampleRow,
  sampleDetail,
} from '../store/sql/batch-view.ts'
import { batchById } from '../store/sql/batches.ts'
import { extraKeys } from '../store/sql/extra-keys.ts'
import { statusOf, toResult } from '../store/sql/results.ts'
import { batchSizes, sampleCount } from '../store/sql/sample-count.ts'
import { sampleFacets } from '../store/sql/sample-facets.ts'
import { type SampleCursor, sampleKeys, sampleList } from '../store/sql/sample-list.ts'
import { textStarts } from '../store/sql/sample-texts.ts'
import { loadImages } from '../store/stored-images.ts'
import { decodeTexts, firstLines } from '../store/stored-texts.ts'

const FACETS_TTL_MS = 1_500

/** Maximum number of samples that `byBatch` counts, and of batches that it returns. */
const MAX_PLACED = 10_000
const MAX_PLACES = 20

export class SampleViews {
  readonly #db: Database
  readonly #facets = new Memo<SampleFacetsDto>(FACETS_TTL_MS)
  readonly #extraKeys = new Memo<ExtraKeysDto>(FACETS_TTL_MS)
  readonly #counts = new Memo<SampleCountDto>(FACETS_TTL_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws RewardOpsError `cursor_mismatch` */
  async list(input: SampleListInput): Promise<SamplePageDto> {
    const { cursor, batch, limit, sort, ...filter } = input
    const { rows, next, searched } = await sampleList(
      this.#db,
      { ...filter, batchId: batch === undefined ? undefined : batchNumber(batch) },
      { sort, cursor: cursor ? parseCursor(cursor) : null, limit },
    )
    return {
      items: rows.map((row) => toRow(row, row.labels ?? [])),
      nextCursor: next && cursorText(next),
      searched: {
        batches: searched.batches,
        samples: searched.samples,
        oldest: searched.oldest === null ? null : `b${searched.oldest}`,
        all: searched.all,
        texts: searched.texts && {
          samples: searched.texts.samples,
          dropped: searched.texts.dropped,
        },
      },
    }
  }

  facets(input: SampleFacetsInput): Promise<SampleFacetsDto> {
    return this.#facets.get(JSON.stringify(input), async () => {
      const { batch, ...of } = input
      const row = await sampleFacets(this.#db, {
        ...of,
        batchId: batch === undefined ? undefined : batchNumber(batch),
      })
      const { batches, pending, capped, scored, failed, waiting } = row
      return {
        ...{ batches, pending, capped, statuses: { scored, failed, waiting } },
        dataSources: row.sources ?? [],
        reasons: row.reasons ?? [],
        verdicts: row.verdicts ?? [],
      }
    })
  }

  extraKeys(input: ExtraKeysInput): Promise<ExtraKeysDto> {
    return this.#extraKeys.get(JSON.stringify(input), async () => {
      const { batch, ...of } = input
      const { keys, ...rest } = await extraKeys(this.#db, {
        ...of,
        batchId: batch === undefined ? undefined : batchNumber(batch),
      })
      return { keys: keys.map((key) => ({ ...key, values: key.values ?? [] })), ...rest }
    })
  }

  /** The number of matching samples, up to a limit. */
  count(filter: SampleFilter): Promise<SampleCountDto> {
    return this.#counts.get(JSON.stringify(filter), () => {
      const { batch, ...rest } = filter
      return sampleCount(this.#db, {
        ...rest,
        batchId: batch === undefined ? undefined : batchNumber(batch),
      })
    })
  }

  /** Counts the newest {@link MAX_PLACED} matching samples by batch, for at most {@link MAX_PLACES} batches. */
  async byBatch({ batch, ...rest }: SampleFilter): Promise<SamplesByBatchDto> {
    const filter = { ...rest, batchId: batch === undefined ? undefined : batchNumber(batch) }
    const counts = new Map<number, number>()
    let left = MAX_PLACED
    let cursor: SampleCursor | null = null
    do {
      const page = await sampleKeys(this.#db, filter, {
        ...{ sort: 'newest', cursor, limit: Math.min(left, 5_000) },
      })
      for (const { batch_id } of page.keys) counts.set(batch_id, (counts.get(batch_id) ?? 0) + 1)
      left -= page.keys.length
      cursor = page.next
    } while (cursor !== null && left > 0 && counts.size <= MAX_PLACES)
    const placed = [...counts].slice(0, MAX_PLACES)
    const sizes = await batchSizes(
      this.#db,
      placed.map(([id]) => id),
    )
    return {
      batches: placed.map(([id, samples]) => ({
        batchId: `b${id}`,
        samples,
        ofBatch: sizes.get(id) ?? samples,
      })),
      hasMore: cursor !== null || counts.size > MAX_PLACES,
    }
  }

  /** The first lines of the texts of some samples. Samples without texts are left out. */
  async firstLines(ids: readonly string[]): Promise<FirstLinesDto[]> {
    const rows = await textStarts(this.#db, ids.map(sampleKey))
    return rows.map((row) => ({ id: `b${row.batch_id}-${row.idx}`, ...firstLines(row) }))
  }

  /** @throws RewardOpsError `sample_not_found`, `removed_by_retention` */
  async detail({ id, imagesByHash }: SampleDetailInput): Promise<SampleDetailDto> {
    const { batch_id: batchId, idx } = sampleKey(id)
    const row = await sampleDetail(this.#db, batchId, idx)
    if (!row) {
      const of = await batchById(this.#db, batchId)
      throw of?.samples_removed_at
        ? new RewardOpsError(
            'removed_by_retention',
            `The samples of b${batchId} were removed by retention.`,
          )
        : new RewardOpsError('sample_not_found', `There is no sample ${id}.`)
    }
    const [attempts, siblings, annotations] = await Promise.all([
      attemptsOf(this.#db, row.batch_id, row.idx),
      groupMembers(this.#db, row.batch_id, [row.group_no]),
      annotationsOf(this.#db, row.batch_id, row.idx),
    ])
    const report = row.group_done ? groupReport(siblings.map(memberOf), row.reward) : null
    const isUnclear =
      report !== null &&
      report.signal !== withoutCorrectness(report.signal) &&
      (await lacksCorrectness(this.#db, row.batch_id, row.reward))
    const place = siblings.findIndex((s) => s.idx === row.idx)
    if (!imagesByHash) await loadImages(this.#db, [row], { mayBeGone: true })
    const { response, ...texts } = decodeTexts(row)
    const detail = {
      ...toRow(row, [...new Set(annotations.map(({ label }) => label))].sort()),
      ...texts,
      response: responseText(response),
      messages: typeof response === 'string' ? null : response,
      textsRemovedAt: row.texts_removed_at?.toISOString() ?? null,
      annotations: annotations.map(toAnnotation),
      promptKey: row.prompt_key,
      advantage: report?.advantages[place] ?? null,
      groupSignal: report && (isUnclear ? withoutCorrectness(report.signal) : report.signal),
      rewardName: row.reward_name,
      rewardVersion: rewardVersionOf(row.reward),
      submittedAt: row.submitted_at.toISOString(),
      dispatchedAt: row.dispatched_at?.toISOString() ?? null,
      attemptLog: attempts.length > 0 ? attempts.map(toDto) : onlyAttempt(row),
      siblings: siblings.map((s) => ({
        id: `b${row.batch_id}-${s.idx}`,
        index: s.idx,
        status: statusOf({ status: s.status, held: false }),
        score: s.score,
      })),
    }
    return withFields(detail, row, DETAIL_FIELDS)
  }
}

/** Writes a cursor after a sample as `<key>_<batch>_<index>_<from batch>`, and any other cursor as `_<from batch>`. */
function cursorText(cursor: SampleCursor): string {
  if (!('after' in cursor)) return `_${cursor.fromBatch}`
  const { key, batchId, idx } = cursor.after
  return `${key ?? ''}_${batchId}_${idx}_${cursor.fromBatch}`
}

function parseCursor(cursor: string): SampleCursor {
  const match = /^(?:(-?[\d.]+(?:e[-+]?\d+)?)?_(\d{1,9})_(\d{1,9}))?_(\d{1,9})$/.exec(cursor)
  if (!match) {
    throw new RewardOpsError(
      'cursor_mismatch',
      `"${cursor.slice(0, 40)}" is not a cursor of samples.list.`,
      {
        hint: 'Use nextCursor of the page before, with the same filters and sort.',
      },
    )
  }
  const [, key, batchId, idx, fromBatch] = match
  if (batchId === undefined) return { fromBatch: Number(fromBatch) }
  return {
    after: {
      key: key === undefined ? null : Number(key),
      batchId: Number(batchId),
      idx: Number(idx),
    },
    fromBatch: Number(fromBatch),
  }
}

function toRow(row: SampleRow, labels: string[]): SampleRowDto {
  const shown = {
    ...toResult(row),
    id: `b${row.batch_id}-${row.idx}`,
    batchId: `b${row.batch_id}`,
    run: row.run,
    step: row.step,
    split: row.split,
    rescoredFrom: row.rescored_from === null ? null : `b${row.rescored_from}`,
    dataSource: row.data_source,
    endedAt: row.ended_at?.toISOString() ?? null,
    labels,
  }
  return withFields(shown, row, ROW_FIELDS)
}

/** Returns the only attempt of a sample that had one attempt. It is stored in the sample's own table row. */
function onlyAttempt(row: SampleDetailRow): AttemptDto[] {
  if (row.attempts !== 1 || !row.dispatched_at) return []
  return [
    {
      attempt: 1,
      serverName: row.server_name,
      workerId: row.worker_id === null ? null : `w${row.worker_id}`,
      startedAt: row.dispatched_at.toISOString(),
      queueMs: 0,
      backoffMs: 0,
      serviceMs: row.score_ms ?? 0,
      outcome: row.status === 2 ? 'ok' : 'fault',
      reason: row.reason,
      statusCode: null,
      detail: null,
    },
  ]
}
