import { z } from 'zod'
import { isStorable } from './storable-text.ts'

const storable = (text: z.ZodString, max: number) =>
  text
    .max(max, `must be at most ${max.toLocaleString('en')} characters`)
    .refine(isStorable, 'must not contain NUL or lone surrogates')

/** A text of at most `max` characters. NUL and lone surrogates are refused, because Postgres and links cannot hold them. */
export const storableText = (max: number) => storable(z.string(), max)

/** {@link storableText} with the spaces at both ends removed. */
export const trimmedText = (max: number) => storable(z.string().trim(), max)

/** A name: a text that is not empty. */
export const name = (max: number) => storableText(max).min(1, 'must not be empty')

/** The name of a run. */
export const RunName = name(256)

/** A cursor from an earlier output of the same procedure. */
export const Cursor = storableText(2_000)

/** The largest value of Postgres's `integer`. */
export const MAX_INT4 = 2_147_483_647
/** A count or an index that Postgres's `integer` can hold. */
export const Int4 = z.int().min(0).max(MAX_INT4)

export const MAX_STEP = MAX_INT4
export const Step = Int4
/** The fields of a range of steps. */
export const stepRange = {
  /** The first step. Default: the oldest step. */
  from: Step.optional(),
  /** The last step. Default: the newest step. */
  until: Step.optional(),
}
