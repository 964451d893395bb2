import { z } from 'zod'
import { Int4, MAX_STEP, name, Step, storableText } from './fields.ts'
import { GROUP_SIGNAL_FILTERS } from './group-signal.ts'
import { namesOf } from './names-of.ts'
import { BatchId, FailureReason, SampleId, SampleStatus } from './trainer.ts'

const MAX_EXTRA_FILTERS = 8

const words = (most: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .max(most, `must be at most ${most.toLocaleString('en')} characters`)
const key = name(256)

/** A condition on a key of `rewardExtraInfo`. A range matches numbers only; null counts as absent. */
export const ExtraFilter = z.discriminatedUnion('is', [
  z.strictObject({ key, is: z.literal('present') }),
  z.strictObject({
    key,
    is: z.literal('number'),
    min: z.number().optional(),
    max: z.number().optional(),
  }),
  z.strictObject({ key, is: z.literal('boolean'), value: z.boolean() }),
  z.strictObject({ key, is: z.literal('text'), value: storableText(1_000) }),
])
export type ExtraFilter = z.infer<typeof ExtraFilter>

/**
 * A filter of samples. All given conditions must hold. `samples.list`, exports, saved views, the Samples page and the
 * CLI share it.
 */
export const SampleFilter = z.strictObject({
  run: name(256).optional(),
  batch: BatchId.optional(),
  /** The step, or the first step of a range. */
  step: Step.optional(),
  /** The last step of a range that starts at `step`. */
  stepTo: Step.optional(),
  split: z.enum(['train', 'val']).optional(),
  /** True selects only samples of rescored batches, false only samples of other batches. */
  rescored: z.boolean().optional(),
  uid: name(512).optional(),
  dataSource: name(512).optional(),
  status: SampleStatus.optional(),
  reason: FailureReason.optional(),
  /** Only scored samples with this verdict, such as `no answer`. */
  verdict: name(256).optional(),
  /**
   * Only samples of groups with this signal. `no_signal` matches every signal except `varied`. Groups match once their
   * batch has ended.
   */
  groupSignal: z.enum(GROUP_SIGNAL_FILTERS).optional(),
  /** True selects only samples whose messages report a failed tool call, false only samples without one. */
  failedToolCall: z.boolean().optional(),
  /** Only samples that the server with this name scored. */
  server: name(256).optional(),
  scoreMin: z.number().optional(),
  scoreMax: z.number().optional(),
  /** The minimum response length, in tokens. Samples without a length are left out. */
  lengthMin: Int4.optional(),
  lengthMax: Int4.optional(),
  /** The minimum number of attempts. */
  attemptsMin: Int4.optional(),
  /** True selects only samples whose score a failure policy set or removed, false only other samples. */
  substituted: z.boolean().optional(),
  /** True selects only annotated samples, false only samples without annotations. */
  annotated: z.boolean().optional(),
  /** Only samples with an annotation of this label. */
  label: name(64).optional(),
  /** Only samples with this text in prompt, response or ground truth, ignoring case. */
  text: words(500).optional(),
  /** Conditions on the reward extra info; all must hold. */
  extra: z
    .array(ExtraFilter)
    .max(MAX_EXTRA_FILTERS, `takes at most ${MAX_EXTRA_FILTERS}`)
    .optional(),
})
export type SampleFilter = z.infer<typeof SampleFilter>

/** Ids of samples. */
export const SampleIds = z.array(SampleId).min(1).max(1_000, 'takes at most 1,000 samples')

const shape = SampleFilter.shape
const numeric = <T extends z.ZodType>(schema: T) =>
  z
    .string()
    .refine((text) => text.trim() !== '' && Number.isFinite(Number(text)), 'must be a number')
    .transform(Number)
    .pipe(schema as unknown as z.ZodType<number, number>)
const truth = z.enum(['true', 'false']).transform((text) => text === 'true')

/** A step or a range that includes both ends: `7`, `0-99`. */
const StepRange = z
  .string()
  .regex(/^\d{1,10}(-\d{1,10})?$/, 'must be a step such as 7, or a range such as 0-99')
  .transform((text) => {
    const [first, last] = text.split('-').map((part) => Math.min(Number(part), MAX_STEP))
    return { first: first as number, last: last ?? (first as number) }
  })

/**
 * A condition on the extra info as text: `key:present`, `key:number:0.5..1` (either bound may be left out),
 * `key:boolean:true` or `key:text:42`. `:` and `%` within the key are percent-encoded.
 */
const ExtraText = z
  .string()
  .transform((text, ctx) => {
    const read = extraOf(text)
    if (read !== null) return read
    ctx.addIssue({
      code: 'custom',
      message:
        'must be KEY:present, KEY:number:FROM..TO, KEY:boolean:true or KEY:text:VALUE, such as acc:number:0.5..1',
    })
    return z.NEVER
  })
  .pipe(ExtraFilter)

/** The filter as text, for URLs and the command line. `step` takes a range; `extra` is repeated per condition. */
export const SAMPLE_FILTER_TEXT = {
  run: shape.run.unwrap(),
  batch: BatchId,
  step: StepRange,
  split: shape.split.unwrap(),
  rescored: truth,
  uid: shape.uid.unwrap(),
  dataSource: shape.dataSource.unwrap(),
  status: SampleStatus,
  reason: FailureReason,
  verdict: shape.verdict.unwrap(),
  groupSignal: shape.groupSignal.unwrap(),
  failedToolCall: truth,
  server: shape.server.unwrap(),
  scoreMin: numeric(z.number()),
  scoreMax: numeric(z.number()),
  lengthMin: numeric(shape.lengthMin.unwrap()),
  lengthMax: numeric(shape.lengthMax.unwrap()),
  attemptsMin: numeric(shape.attemptsMin.unwrap()),
  substituted: truth,
  annotated: truth,
  label: shape.label.unwrap(),
  text: shape.text.unwrap(),
  extra: z.array(ExtraText).max(MAX_EXTRA_FILTERS, `takes at most ${MAX_EXTRA_FILTERS}`),
}
export type SampleFilterName = keyof typeof SAMPLE_FILTER_TEXT

/** The names of the filter's parameters, in the order in which they are written. */
export const SAMPLE_FILTER_NAMES = namesOf(SAMPLE_FILTER_TEXT)

/** A parameter that cannot be read. */
export interface UnreadFilter {
  name: SampleFilterName
  value: string
  /** The problem, to be printed after the name. */
  message: string
}

/** Reads a filter from text. Other names are ignored; invalid values are left out and returned in `unread`. */
export function readSampleFilter(given: URLSearchParams): {
  filter: SampleFilter
  unread: UnreadFilter[]
} {
  const filter: Record<string, unknown> = {}
  const unread: UnreadFilter[] = []
  for (const name of SAMPLE_FILTER_NAMES) {
    const values = given.getAll(name).filter((value) => value !== '')
    if (values.length === 0) continue
    if (name === 'extra') {
      const extra: ExtraFilter[] = []
      for (const value of values) {
        const read = ExtraText.safeParse(value)
        if (!read.success) unread.push({ name, value, message: firstIssue(read.error) })
        else if (extra.length === MAX_EXTRA_FILTERS)
          unread.push({ name, value, message: `takes at most ${MAX_EXTRA_FILTERS}` })
        else extra.push(read.data)
      }
      if (extra.length > 0) filter.extra = extra
      continue
    }
    const value = values[0] as string
    const read = SAMPLE_FILTER_TEXT[name].safeParse(value)
    if (!read.success) unread.push({ name, value, message: firstIssue(read.error) })
    else if (name === 'step') Object.assign(filter, stepOf(read.data as StepRange))
    else filter[name] = read.data
  }
  return { filter: filter as SampleFilter, unread }
}

type StepRange = z.infer<typeof StepRange>

function firstIssue(error: z.ZodError): string {
  return error.issues[0]?.message ?? 'cannot be read'
}

function stepOf({ first, last }: StepRange): Pick<SampleFilter, 'step' | 'stepTo'> {
  return first === last ? { step: first } : { step: first, stepTo: last }
}

/** Writes a filter as text that {@link readSampleFilter} reads. */
export function writeSampleFilter(filter: SampleFilter): URLSearchParams {
  const params = new URLSearchParams()
  for (const name of SAMPLE_FILTER_NAMES) {
    const value = filter[name]
    if (value === undefined) continue
    if (name === 'extra') {
      for (const one of filter.extra ?? []) params.append('extra', extraText(one))
    } else if (name === 'step') {
      params.set(name, filter.stepTo === undefined ? `${value}` : `${value}-${filter.stepTo}`)
    } else params.set(name, String(value))
  }
  return params
}

/** Converts values of {@link SAMPLE_FILTER_TEXT} to a filter. */
export function filterOfText(
  text: { [Name in SampleFilterName]?: z.infer<(typeof SAMPLE_FILTER_TEXT)[Name]> | undefined },
): SampleFilter {
  const { step, ...rest } = text
  return { ...rest, ...(step === undefined ? {} : stepOf(step)) }
}

/** Writes a condition on the extra info as text. */
export function extraText(filter: ExtraFilter): string {
  const name = filter.key.replaceAll('%', '%25').replaceAll(':', '%3A')
  if (filter.is === 'present') return `${name}:present`
  if (filter.is === 'number') return `${name}:number:${filter.min ?? ''}..${filter.max ?? ''}`
  return `${name}:${filter.is}:${filter.value}`
}

function extraOf(text: string): unknown {
  const [, name, is, , rest] = /^([^:]+):([a-z]+)(:([\s\S]*))?$/.exec(text) ?? []
  if (name === undefined) return null
  const key = name.replaceAll(/%3a/gi, ':').replaceAll('%25', '%')
  if (is === 'present') return rest === undefined ? { key, is } : null
  if (rest === undefined) return null
  if (is === 'text') return { key, is, value: rest }
  if (is === 'boolean') {
    return rest === 'true' || rest === 'false' ? { key, is, value: rest === 'true' } : null
  }
  if (is !== 'number') return null
  const ends = /^([^.]*(?:\.\d[^.]*)?)\.\.([\s\S]*)$/.exec(rest)
  if (ends === null) return null
  const [min, max] = [ends[1] as string, ends[2] as string].map((end) =>
    end.trim() === '' ? undefined : Number(end),
  )
  if (Number.isNaN(min ?? 0) || Number.isNaN(max ?? 0)) return null
  return {
    ...{ key, is },
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
  }
}

/** Whether a filter has any condition. */
export function narrows(filter: SampleFilter): boolean {
  return SAMPLE_FILTER_NAMES.some((name) => filter[name] !== undefined)
}

/**
 * Returns a case-insensitive pattern for a literal text, to search texts that SQL cannot decode and to highlight
 * matches.
 */
export function literalPattern(text: string): RegExp {
  return new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'giu')
}
