import { checkRuns, type ScopedCaller } from '../../admin/run-scope.ts'
import { describeIssues } from '../../contract/describe-issues.ts'
import {
  AppendEnvelope,
  type AppendInput,
  type AppendResult,
  SubmitEnvelope,
  type SubmitInput,
  type SubmitResult,
} from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import { type AcceptContext, acceptBatch, appendToBatch } from './accept-batch.ts'
import { BatchDraft } from './batch-draft.ts'
import { BodySplitter, parseJson } from './body-splitter.ts'
import { EarlyTextCopy } from './early-texts.ts'

export type IngestKind = 'submit' | 'append'

/** A submit with this many bytes of encoded texts and images sends them to Postgres before its body is complete. */
const EARLY_BYTES = 4 << 20

/**
 * One incoming body. Its bytes are split, parsed, checked and encoded as they arrive. All database writes happen in one
 * transaction, so nothing is stored if the body is dropped.
 */
export class Ingest {
  readonly #draft: BatchDraft
  readonly #splitter: BodySplitter
  readonly #kind: IngestKind
  readonly #context: AcceptContext
  readonly #caller: ScopedCaller
  #early: EarlyTextCopy | null = null

  constructor(kind: IngestKind, context: AcceptContext, caller: ScopedCaller) {
    this.#kind = kind
    this.#caller = caller
    this.#context = context
    this.#draft = new BatchDraft(context.images())
    this.#splitter = new BodySplitter((json, longInteger) => {
      this.#draft.add(parseJson(json, `samples[${this.#draft.count}]`, longInteger))
    })
  }

  /** Takes the next bytes of the body. Throws RewardOpsError at the first invalid byte or sample; then call `drop`. */
  async push(chunk: Buffer): Promise<void> {
    this.#splitter.push(chunk)
    if (this.#kind !== 'submit') return
    if (this.#early === null && this.#draft.byteLength + this.#draft.imageBytes < EARLY_BYTES)
      return
    this.#early ??= await EarlyTextCopy.begin(this.#context)
    await this.#early?.send(this.#draft)
  }

  /** Ends the body and stores its samples. Resolves after the commit. Throws RewardOpsError; then call `drop`. */
  async finish(): Promise<SubmitResult | AppendResult> {
    const body = this.#splitter.finish()
    const { samples, ...rest } = asObject(body)
    await this.#checkScope(rest)
    if (!Array.isArray(samples)) {
      throw new RewardOpsError(
        'invalid_input',
        samples === undefined ? 'samples: is missing' : 'samples: must be an array',
      )
    }
    for (const sample of samples) this.#draft.add(sample)
    if (this.#kind === 'submit') {
      const envelope = SubmitEnvelope.safeParse(rest)
      if (!envelope.success) {
        throw new RewardOpsError('invalid_input', describeIssues(envelope.error))
      }
      const early = this.#early
      const result = await acceptBatch(
        this.#context,
        envelope.data,
        this.#draft,
        early ? { early } : {},
      )
      // A duplicate stores nothing, so texts that were sent early are rolled back.
      if (result.duplicate) await this.drop()
      else await early?.commit()
      this.#early = null
      return result
    }
    const envelope = AppendEnvelope.safeParse(rest)
    if (!envelope.success) throw new RewardOpsError('invalid_input', describeIssues(envelope.error))
    return appendToBatch(this.#context, envelope.data, this.#draft)
  }

  async #checkScope({ run, batchId }: Record<string, unknown>): Promise<void> {
    const named = this.#kind === 'submit' ? { runs: asNames(run) } : { batches: asNames(batchId) }
    await checkRuns(this.#context.db, this.#caller, `batches.${this.#kind}`, named)
  }

  async drop(): Promise<void> {
    const early = this.#early
    this.#early = null
    await early?.rollback()
  }
}

/** Returns a name as a list with one element. Other values give an empty list and are refused later. */
function asNames(value: unknown): string[] {
  return typeof value === 'string' ? [value] : []
}

function asObject(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new RewardOpsError('invalid_input', 'The body must be a JSON object.')
  }
  return body as Record<string, unknown>
}

/** Accepts a submission whose body was small enough to be parsed on the server's event loop. */
export async function submitParsed(
  context: AcceptContext,
  input: SubmitInput,
): Promise<SubmitResult> {
  const { samples, ...envelope } = input
  return acceptBatch(context, envelope, draftOf(context, samples))
}

export async function appendParsed(
  context: AcceptContext,
  input: AppendInput,
): Promise<AppendResult> {
  const { samples, ...envelope } = input
  return appendToBatch(context, envelope, draftOf(context, samples))
}

function draftOf({ images }: AcceptContext, samples: SubmitInput['samples']): BatchDraft {
  const draft = new BatchDraft(images())
  for (const sample of samples) draft.addParsed(sample)
  return draft
}
