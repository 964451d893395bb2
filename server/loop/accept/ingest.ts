import { RewardOpsError } from '../../errors.ts'
import { describeIssues } from '../../wire/describe-issues.ts'
import {
  AppendEnvelope,
  type AppendInput,
  type AppendResult,
  SubmitEnvelope,
  type SubmitInput,
  type SubmitResult,
} from '../../wire/trainer.ts'
import { type AcceptContext, acceptBatch, appendToBatch } from './accept-batch.ts'
import { BatchDraft } from './batch-draft.ts'
import { BodySplitter, parseJson } from './body-splitter.ts'

/** Which procedure a large body is for. */
export type IngestKind = 'submit' | 'append'

/**
 * One body on its way in: bytes are split, parsed, checked and encoded as they arrive; only `finish` touches the
 * database, in one transaction. Dropping it half-way leaves nothing behind.
 */
export class Ingest {
  readonly #draft = new BatchDraft()
  readonly #splitter: BodySplitter
  readonly #kind: IngestKind

  constructor(kind: IngestKind) {
    this.#kind = kind
    this.#splitter = new BodySplitter((json, longInteger) => {
      this.#draft.add(parseJson(json, `samples[${this.#draft.count}]`, longInteger))
    })
  }

  /** Throws RewardOpsError at the first byte or sample that is wrong. */
  push(chunk: Buffer): void {
    this.#splitter.push(chunk)
  }

  async finish(context: AcceptContext): Promise<SubmitResult | AppendResult> {
    const body = this.#splitter.finish()
    const { samples, ...rest } = asObject(body)
    if (!Array.isArray(samples)) {
      throw new RewardOpsError(
        'invalid_input',
        samples === undefined ? 'samples: is missing' : 'samples: must be an array',
      )
    }
    for (const sample of samples) this.#draft.add(sample)
    if (this.#kind === 'submit') {
      const envelope = SubmitEnvelope.safeParse(rest)
      if (!envelope.success)
        throw new RewardOpsError('invalid_input', describeIssues(envelope.error))
      return acceptBatch(context, envelope.data, this.#draft)
    }
    const envelope = AppendEnvelope.safeParse(rest)
    if (!envelope.success) throw new RewardOpsError('invalid_input', describeIssues(envelope.error))
    return appendToBatch(context, envelope.data, this.#draft)
  }
}

function asObject(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new RewardOpsError('invalid_input', 'The body must be a JSON object.')
  }
  return body as Record<string, unknown>
}

/** A submit whose body was small enough to be parsed on the server's loop. */
export async function submitParsed(
  context: AcceptContext,
  input: SubmitInput,
  implicitKey: string | null = null,
): Promise<SubmitResult> {
  const { samples, ...envelope } = input
  return acceptBatch(context, envelope, draftOf(samples), implicitKey)
}

/** An append whose body was small enough to be parsed on the server's loop. */
export async function appendParsed(
  context: AcceptContext,
  input: AppendInput,
): Promise<AppendResult> {
  const { samples, ...envelope } = input
  return appendToBatch(context, envelope, draftOf(samples))
}

function draftOf(samples: SubmitInput['samples']): BatchDraft {
  const draft = new BatchDraft()
  for (const sample of samples) draft.addParsed(sample)
  return draft
}
