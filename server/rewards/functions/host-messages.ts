import { z } from 'zod'
import { SAMPLE_FAILURE_REASONS } from '../../contract/sample-reason.ts'
import { PartRewards } from '../../contract/trainer.ts'
import { problemOfBody } from './host-frames.ts'
import type { FromHost, RouterQuestion } from './protocol.ts'

/**
 * Messages that a worker accepts from a process that runs user code. The code controls every byte, because it can
 * write to the channel itself, so every message is checked, and an invalid message ends the process.
 */

/** Maximum length of a failure detail, in characters, as in storage. */
const MAX_DETAIL_CHARS = 4_000
/** Maximum size of a log line with its fields. Function processes truncate their lines to a smaller size. */
const MAX_LOG_BYTES = 256 << 10
/** Maximum size of one sample's result: enough for extra info of 2²⁰ characters as UTF-8. */
const MAX_SCORE_BYTES = 4 << 20

const id = z.int().min(0)
const text = z.string()
const detail = z.string().overwrite((value) => value.slice(0, MAX_DETAIL_CHARS))
const fields = z.record(z.string(), z.unknown())
const failure = z.strictObject({
  ok: z.literal(false),
  reason: z.enum(SAMPLE_FAILURE_REASONS),
  detail,
})
const score = z.strictObject({
  ok: z.literal(true),
  score: z.number(),
  extra: fields.nullable(),
  rawScore: z.number().optional(),
  verdict: z.strictObject({ verdict: text, extracted: text.nullable() }).optional(),
  rewards: PartRewards.optional(),
})

const Inspected = z.union([
  z.strictObject({
    ok: z.literal(true),
    form: z.enum(['function', 'class', 'object']),
    methods: z.array(text).max(10_000),
  }),
  z.strictObject({ ok: z.literal(false), message: detail, exports: z.array(text).max(10_000) }),
])

const Message = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('end'),
    id,
    sync: z.boolean(),
    busyMs: z.number().min(0),
    end: z.union([
      score,
      failure,
      z.strictObject({ ok: z.literal(true), results: z.array(z.union([score, failure])) }),
      // `value` may be missing, because JSON has no `undefined`. This least specific form therefore comes last.
      z.strictObject({ ok: z.literal(true), value: z.unknown() }),
    ]),
  }),
  z.strictObject({ type: z.literal('loaded'), key: text, error: detail.nullable() }),
  z.strictObject({ type: z.literal('inspected'), result: Inspected }),
  z.strictObject({
    type: z.literal('ask'),
    call: id,
    request: id,
    question: z.looseObject({ op: z.enum(['score', 'chat', 'template', 'wrapped']) }),
  }),
  z.strictObject({
    type: z.literal('log'),
    call: id,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    message: detail,
    fields: fields.nullable(),
    leftOut: z.int().min(0),
  }),
  z.strictObject({ type: z.literal('load-average'), busy: z.number().min(0).max(1) }),
  z.strictObject({ type: z.literal('spent'), why: detail }),
])

export type ReadMessage = { ok: true; message: FromHost } | { ok: false; problem: string }

/** Never throws. */
export function readHostMessage(body: Buffer): ReadMessage {
  const problem = problemOfBody(body)
  if (problem !== null) return { ok: false, problem }
  let json: unknown
  try {
    json = JSON.parse(body.toString('utf8'))
  } catch {
    return { ok: false, problem: 'it is not JSON' }
  }
  const parsed = Message.safeParse(json)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const at = (issue?.path ?? []).slice(0, 4).map(String).join('.').slice(0, 100)
    return { ok: false, problem: `its ${at === '' ? 'type' : at} is wrong` }
  }
  const message = parsed.data as FromHost
  const limit =
    message.type === 'log'
      ? MAX_LOG_BYTES
      : message.type === 'end' && 'score' in message.end
        ? MAX_SCORE_BYTES
        : Number.POSITIVE_INFINITY
  if (body.length > limit) {
    return { ok: false, problem: `it is ${body.length} bytes long, over ${limit}` }
  }
  return { ok: true, message }
}

const content = z.union([text, z.array(z.looseObject({ type: text }))]).nullish()
const turns = z.array(z.looseObject({ role: text, content }))
const options = z.looseObject({
  timeoutMs: z.number().positive().optional(),
  maxAttempts: z.int().min(1).max(100).optional(),
})

const Question = z.discriminatedUnion('op', [
  z.object({
    op: z.literal('score'),
    model: text,
    input: z.looseObject({
      prompt: z.union([text, turns]),
      response: text,
      dataSource: text.optional(),
      extraInfo: fields.optional(),
    }),
    options,
  }),
  z.object({
    op: z.literal('chat'),
    model: text,
    chat: z.looseObject({
      messages: z.array(z.looseObject({ role: text, content: text })),
      temperature: z.number().optional(),
      topP: z.number().optional(),
      maxTokens: z.int().optional(),
      stop: z.array(text).optional(),
      seed: z.int().optional(),
      topLogprobs: z.int().optional(),
      jsonSchema: z.object({ name: text, schema: fields }).optional(),
      chatTemplateKwargs: fields.optional(),
    }),
    options,
  }),
  z.object({ op: z.literal('template'), model: text }),
  z.object({
    op: z.literal('wrapped'),
    sample: z.looseObject({
      dataSource: text,
      prompt: z.union([text, turns]),
      solutionStr: text,
      messages: turns.nullish(),
      extraInfo: fields,
      responseLength: z.number().nullish(),
    }),
  }),
])

/**
 * Reads a function's request to the router. An invalid request is a mistake, not an attack: the function gets `problem`
 * as the answer, and the process continues.
 */
export function readQuestion(
  question: unknown,
): { ok: true; question: RouterQuestion } | { ok: false; problem: string } {
  const parsed = Question.safeParse(question)
  if (parsed.success) return { ok: true, question: parsed.data as RouterQuestion }
  const [issue] = parsed.error.issues
  const at = (issue?.path ?? []).slice(0, 6).map(String).join('.').slice(0, 100)
  return { ok: false, problem: `${at === '' ? 'the question' : at}: ${issue?.message}` }
}
