import { createHash } from 'node:crypto'
import { describeIssues } from '../../contract/describe-issues.ts'
import { SampleInput, type SubmitEnvelope } from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import { CopyBinary, postgresDay, type RowPosition } from '../../store/copy-binary.ts'
import {
  type ColumnValue,
  columnNames,
  WRITTEN_SAMPLE_COLUMNS,
  WRITTEN_TEXT_COLUMNS,
} from '../../store/sample-columns.ts'
import type { StoredSample } from '../../store/sql/append.ts'
import { ImageCollector, type ImagePolicy } from '../../store/stored-images.ts'
import { type EncodedTexts, encodeTexts, promptKeyOf } from '../../store/stored-texts.ts'

/** Bytes of a text row before its first text: field count, then bucket, batch and index with their lengths. */
const TEXT_ROW_HEADER = 2 + 3 * 8
const TEXT_ROW_COLUMNS = 3 + WRITTEN_TEXT_COLUMNS.length

/**
 * The samples of one submit or append, before they are stored. Adding a sample checks it and encodes its texts
 * for COPY.
 */
export class BatchDraft {
  readonly uids: string[] = []
  /** The position of a group within this draft, by uid: 0, 1, … in order of first appearance. */
  readonly #groupOfUid = new Map<string, number>()
  readonly groupOf: number[] = []
  readonly sizes: number[] = []
  readonly prescoredOf: number[] = []
  readonly promptKeys: (Buffer | null)[] = []
  /** Number of samples that were submitted without a score, by data source. */
  readonly dataSources = new Map<string, number>()
  readonly #values: readonly ColumnValue[][] = WRITTEN_SAMPLE_COLUMNS.map(() => [])
  readonly #score: (number | null)[] = []
  /** Characters of prompt and response per sample, as an estimate of a reward model's work. */
  readonly charsOf: number[] = []
  readonly #texts = new CopyBinary(TEXT_ROW_COLUMNS)
  #samples: CopyBinary | null = null
  /** The position of each text row; null after the row was sent. */
  readonly #rows: (RowPosition | null)[] = []
  readonly #hash = createHash('sha256')
  readonly #textHash = createHash('sha256')
  #hashed = 0
  #handedOn = 0
  readonly #indexes: { index: number; at: number }[] = []
  readonly #images: ImageCollector
  prescored = 0

  constructor(images: ImagePolicy) {
    this.#images = new ImageCollector(images)
  }

  /** The images taken out of the texts, by SHA-256. Null if the image was already sent. */
  get images(): ReadonlyMap<string, Buffer | null> {
    return this.#images.images
  }

  get imageBytes(): number {
    return this.#images.byteLength
  }

  /**
   * Returns the images in memory, so that they can be sent before the rest of the body arrives. The COPY of the texts
   * must end before the images are sent on the same connection, so the next text rows begin a new COPY stream.
   */
  takeImages(): Map<string, Buffer> {
    this.#texts.restart()
    return this.#images.handOver()
  }

  get count(): number {
    return this.groupOf.length
  }

  get byteLength(): number {
    return this.#texts.byteLength
  }

  /** Checks and encodes one sample. Throws `invalid_input` with the path of the error. */
  add(value: unknown): void {
    const at = this.count
    const parsed = SampleInput.safeParse(value)
    if (!parsed.success) {
      throw new RewardOpsError('invalid_input', prefixed(at, describeIssues(parsed.error)))
    }
    this.addParsed(parsed.data)
  }

  /** Like {@link add}, for a sample that has passed the schema. */
  addParsed(sample: SampleInput): void {
    const at = this.count
    const sent = encodeTexts(sample)
    const texts = this.#images.take(sent, sample, `samples[${at}]`)
    let group = this.#groupOfUid.get(sample.uid)
    if (group === undefined) {
      group = this.uids.length
      this.#groupOfUid.set(sample.uid, group)
      this.uids.push(sample.uid)
      this.sizes.push(0)
      this.prescoredOf.push(0)
      this.promptKeys.push(promptKeyOf(sample, sent))
    }
    this.sizes[group]!++
    this.groupOf.push(group)
    this.#score.push(sample.score ?? null)
    for (let c = 0; c < WRITTEN_SAMPLE_COLUMNS.length; c++) {
      this.#values[c]!.push(WRITTEN_SAMPLE_COLUMNS[c]!.of(sample))
    }
    if (typeof sample.score === 'number') {
      this.prescored++
      this.prescoredOf[group]!++
    } else {
      this.dataSources.set(sample.dataSource, (this.dataSources.get(sample.dataSource) ?? 0) + 1)
    }
    if (typeof sample.index === 'number') this.#indexes.push({ index: sample.index, at })
    this.charsOf.push(texts.prompt.length + texts.response.length)
    this.#rows.push(encodeTextRow(this.#texts, ({ of }) => of(texts)))
    if (texts !== sent) this.#hashAsSent(at, sent)
  }

  /**
   * Checks that given indexes match the order of the samples, which are numbered from `startIndex`. Throws
   * `duplicate_index`, `invalid_input`.
   */
  checkIndexes(startIndex: number): void {
    const seen = new Map<number, number>()
    for (const { index, at } of this.#indexes) {
      const before = seen.get(index)
      if (before !== undefined) {
        throw new RewardOpsError(
          'duplicate_index',
          `samples[${at}].index is ${index}, and so is samples[${before}].index.`,
        )
      }
      seen.set(index, at)
    }
    for (const { index, at } of this.#indexes) {
      if (index !== startIndex + at) {
        throw new RewardOpsError(
          'invalid_input',
          `samples[${at}].index is ${index}, but must be ${startIndex + at}: samples are numbered in the order given.`,
          { hint: 'Leave "index" out, or send the samples in order.' },
        )
      }
    }
  }

  /**
   * Hashes the envelope and every field of every sample. Formatting and compression of the body do not change
   * the hash.
   */
  contentHash({ idempotencyKey: _, ...content }: SubmitEnvelope): Buffer {
    this.#hashRows(this.count)
    return this.#hash.update(this.#textHash.digest()).update(JSON.stringify(content)).digest()
  }

  /** Hashes whole blocks of rows, because two hash calls per row took a tenth of the ingest thread's time. */
  #hashRows(until: number): void {
    const parts: string[] = []
    while (this.#hashed < until) {
      const { block, start } = this.#rows[this.#hashed] as RowPosition
      let end = start
      for (; this.#hashed < until; this.#hashed++) {
        const i = this.#hashed
        const row = this.#rows[i] as RowPosition
        if (row.block !== block) break
        end = row.end
        parts.push(this.#valuesOf(i))
      }
      // Bucket, batch and index are still zeros here, so the hash does not depend on the batch.
      this.#textHash.update(block.subarray(start, end))
    }
    this.#hash.update(parts.join(''))
  }

  /** Hashes the last row as the client sent it, so that the hash does not depend on how images are stored. */
  #hashAsSent(at: number, sent: EncodedTexts): void {
    this.#hashRows(at)
    const { block, start, end } = encodeTextRow(new CopyBinary(TEXT_ROW_COLUMNS, 0), ({ of }) =>
      of(sent),
    )
    this.#textHash.update(block.subarray(start, end))
    this.#hash.update(this.#valuesOf(at))
    this.#hashed = at + 1
  }

  #valuesOf(i: number): string {
    let values = `${this.uidOf(i)}\n${this.#score[i]}\n`
    for (const column of this.#values) values += `${column[i]}\n`
    return values
  }

  /**
   * Returns the full blocks of text rows, with bucket, batch and index filled in, so that they can be sent before the
   * rest of the body arrives. The blocks are hashed and released, so a body of 256 MiB is never in memory as a whole.
   */
  takeTextBlocks(bucket: string, batchId: number): Buffer[] {
    let until = this.#handedOn
    while (
      until < this.#rows.length &&
      !this.#texts.isOpen((this.#rows[until] as RowPosition).block)
    )
      until++
    this.#hashRows(until)
    this.#fillIn(bucket, batchId, 0, until)
    for (; this.#handedOn < until; this.#handedOn++) this.#rows[this.#handedOn] = null
    return this.#texts.takeFull()
  }

  /** Returns the text rows that `takeTextBlocks` has not returned, and the end of the COPY stream. */
  textBlocks(bucket: string, batchId: number, startIndex: number): Buffer[] {
    this.#fillIn(bucket, batchId, startIndex, this.#rows.length)
    return this.#texts.blocks()
  }

  #fillIn(bucket: string, batchId: number, startIndex: number, until: number): void {
    const day = postgresDay(bucket)
    for (let i = this.#handedOn; i < until; i++) {
      const { block, start } = this.#rows[i] as RowPosition
      block.writeInt32BE(day, start + 6)
      block.writeInt32BE(batchId, start + 14)
      block.writeInt32BE(startIndex + i, start + 22)
    }
  }

  /** Frees memory for other drafts. Call it after the samples are stored; the draft is unusable afterwards. */
  release(): void {
    this.#texts.release()
    this.#samples?.release()
  }

  isStored(i: number, { uid, givenScore, values, text }: StoredSample): boolean {
    if (text === undefined || uid !== this.uidOf(i) || givenScore !== this.#score[i]) return false
    const row = this.#rows[i] as RowPosition
    // An earlier version of the service stored images within messages. They are taken out before the comparison.
    const apart: typeof text = this.#images.takeStored(text as typeof text & EncodedTexts)
    const of = ({ name }: TextColumn) => apart[name] as ColumnValue
    const stored = encodeTextRow(new CopyBinary(TEXT_ROW_COLUMNS, 0), of)
    if (!textsOf(row).equals(textsOf(stored))) return false
    // The result columns of a sample that was submitted without a score contain the service's results, so they are not
    // compared.
    return WRITTEN_SAMPLE_COLUMNS.every(
      ({ name, isResult, isDerived }, c) =>
        isDerived || (isResult && givenScore === null) || values[name] === this.#values[c]![i],
    )
  }

  uidOf(i: number): string {
    return this.uids[this.groupOf[i] as number] as string
  }

  /** Encodes the rows of the table `sample`. `groupNo` maps each group of the draft to its number within the batch. */
  sampleBlocks(
    batchId: number,
    startIndex: number,
    groupNo: readonly number[],
    nowMs: number,
  ): Buffer[] {
    const rows = new CopyBinary(7 + WRITTEN_SAMPLE_COLUMNS.length)
    this.#samples = rows
    for (let i = 0; i < this.count; i++) {
      const score = this.#score[i] as number | null
      let bytes = 64
      for (const column of this.#values) bytes += maxBytes(column[i] as ColumnValue)
      rows.beginRow(bytes)
      rows.int4(batchId)
      rows.int4(startIndex + i)
      rows.int4(groupNo[this.groupOf[i] as number] as number)
      rows.int2(score === null ? 0 : 2)
      if (score === null) {
        rows.null()
        rows.null()
        rows.null()
      } else {
        rows.float8(score)
        rows.float8(score)
        rows.timestamptz(nowMs)
      }
      for (let c = 0; c < WRITTEN_SAMPLE_COLUMNS.length; c++) {
        rows.value(WRITTEN_SAMPLE_COLUMNS[c]!.type, this.#values[c]![i] as ColumnValue)
      }
      rows.endRow()
    }
    return rows.blocks()
  }

  /** Returns the samples of {@link toScore} by group. `size` selects groups of that size; 0 selects all, null none. */
  groupsToScore(size: number | null): number[][] {
    const groups = new Map<number, number[]>()
    if (size === null) return []
    for (const index of this.toScore()) {
      const group = this.groupOf[index] as number
      if (size !== 0 && this.sizes[group] !== size) continue
      const list = groups.get(group)
      if (list) list.push(index)
      else groups.set(group, [index])
    }
    return [...groups.values()]
  }

  /** Indexes, within this draft, of the samples that were submitted without a score. */
  toScore(): number[] {
    const out: number[] = []
    for (let i = 0; i < this.count; i++) if (this.#score[i] === null) out.push(i)
    return out
  }
}

export const SAMPLE_COPY_COLUMNS = `batch_id, idx, group_no, status, score, raw_score, ended_at, ${columnNames(WRITTEN_SAMPLE_COLUMNS)}`
export const TEXT_COPY_COLUMNS = `bucket, batch_id, idx, ${columnNames(WRITTEN_TEXT_COLUMNS)}`

/** Upper bound of a value's bytes in a row: a UTF-16 unit has up to 3 bytes in UTF-8, a number has 4. */
function maxBytes(value: ColumnValue): number {
  return typeof value === 'string' ? 3 * value.length : 4
}

type TextColumn = (typeof WRITTEN_TEXT_COLUMNS)[number]

/** Adds a row of the table `sample_text`, with zeros for bucket, batch and index. */
function encodeTextRow(rows: CopyBinary, of: (column: TextColumn) => ColumnValue): RowPosition {
  let bytes = TEXT_ROW_HEADER
  for (const column of WRITTEN_TEXT_COLUMNS) bytes += maxBytes(of(column))
  rows.beginRow(bytes)
  rows.int4(0)
  rows.int4(0)
  rows.int4(0)
  for (const column of WRITTEN_TEXT_COLUMNS) rows.value(column.type, of(column))
  return rows.endRow()
}

function textsOf({ block, start, end }: RowPosition): Buffer {
  return block.subarray(start + TEXT_ROW_HEADER, end)
}

function prefixed(at: number, issues: string): string {
  if (issues.startsWith('input: ')) return `samples[${at}]: ${issues.slice(7)}`
  return `samples[${at}]${issues.startsWith('unknown field') ? ': ' : '.'}${issues}`
}
