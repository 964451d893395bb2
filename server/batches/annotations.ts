import {
  type AddAnnotationInput,
  type AddedAnnotationsDto,
  type AnnotationDto,
  type AnnotationLabelDto,
  type AnnotationLabelsInput,
  MAX_ANNOTATED_SAMPLES,
  type UpdateAnnotationInput,
} from '../contract/annotations.ts'
import type { Actor } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import {
  type AnnotationRow,
  addAnnotations,
  annotationById,
  annotationLabels,
  annotationsOf,
  removeAnnotation,
  updateAnnotation,
} from '../store/sql/annotations.ts'
import { type SampleCursor, sampleKeys } from '../store/sql/sample-list.ts'
import type { SampleKey } from '../store/sql/sample-texts.ts'
import { batchNumber, sampleKey } from './batch-reader.ts'

/** Samples annotated per transaction, which takes about 20 ms. */
const PAGE_SAMPLES = 1_000
/** Time after which a call with a filter stops and reports `hasMore`. */
const LOOK_MS = 5_000
/**
 * Maximum number of annotation ids returned, for undo. If there are more, none are returned, because the undo would be
 * incomplete.
 */
const MAX_LISTED = 1_000

export class Annotations {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Annotates the given samples, or those that match a filter: at most {@link MAX_ANNOTATED_SAMPLES}, newest
   * first, one page per transaction. Repeating the call adds no duplicates.
   */
  async add(input: AddAnnotationInput, actor: Actor): Promise<AddedAnnotationsDto> {
    const annotation = { label: input.label, note: input.note || null, author: actor.name }
    const done: AddedAnnotationsDto = {
      added: 0,
      alreadyAnnotated: 0,
      missing: 0,
      ids: [],
      hasMore: false,
    }
    const put = async (samples: readonly SampleKey[]) => {
      if (samples.length === 0) return
      const { ids, existing } = await addAnnotations(this.#db, samples, annotation)
      done.added += ids.length
      done.alreadyAnnotated += existing - ids.length
      done.missing += samples.length - existing
      if (done.added <= MAX_LISTED) done.ids.push(...ids.map((id) => `a${id}`))
      else done.ids = []
    }
    if (input.samples !== undefined) await put([...new Set(input.samples)].map(sampleKey))
    else if (input.filter !== undefined) {
      const { batch, ...filter } = input.filter
      const batchId = batch === undefined ? undefined : batchNumber(batch)
      const until = performance.now() + LOOK_MS
      let left = MAX_ANNOTATED_SAMPLES
      for (let cursor: SampleCursor | null = null; ; ) {
        const page = await sampleKeys(
          this.#db,
          { ...filter, batchId },
          { sort: 'newest', cursor, limit: Math.min(left, PAGE_SAMPLES) },
        )
        await put(page.keys)
        left -= page.keys.length
        cursor = page.next
        if (cursor === null) break
        done.hasMore = left <= 0 || performance.now() > until
        if (done.hasMore) break
      }
    }
    return done
  }

  /** Throws `annotation_not_found`, `not_the_author`. */
  async update(input: UpdateAnnotationInput, actor: Actor): Promise<AnnotationDto> {
    await this.#own(input.id, actor)
    const row = await updateAnnotation(this.#db, input.id.slice(1), {
      label: input.label,
      note: input.note === undefined ? undefined : input.note || null,
    })
    if (row === undefined) throw notFound(input.id)
    return toAnnotation(row)
  }

  /** Throws `annotation_not_found`, `not_the_author`. */
  async remove(id: string, actor: Actor): Promise<{ removed: true }> {
    await this.#own(id, actor)
    await removeAnnotation(this.#db, id.slice(1))
    return { removed: true }
  }

  async of(sample: string): Promise<AnnotationDto[]> {
    const { batch_id, idx } = sampleKey(sample)
    return (await annotationsOf(this.#db, batch_id, idx)).map(toAnnotation)
  }

  labels({ run, batch }: AnnotationLabelsInput): Promise<AnnotationLabelDto[]> {
    return annotationLabels(this.#db, {
      run,
      batchId: batch === undefined ? undefined : batchNumber(batch),
    })
  }

  async #own(id: string, actor: Actor): Promise<void> {
    const row = await annotationById(this.#db, id.slice(1))
    if (row === undefined) throw notFound(id)
    if (row.author !== actor.name && actor.role !== 'admin') {
      throw new RewardOpsError('not_the_author', `${id} was written by ${row.author}.`)
    }
  }
}

function notFound(id: string): RewardOpsError {
  return new RewardOpsError('annotation_not_found', `There is no annotation ${id}.`)
}

export function toAnnotation(row: AnnotationRow): AnnotationDto {
  return {
    id: `a${row.id}`,
    sample: `b${row.batch_id}-${row.idx}`,
    label: row.label,
    note: row.note,
    author: row.author,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at?.toISOString() ?? null,
  }
}
