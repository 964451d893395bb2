import { z } from 'zod'
import { RunName, Step, trimmedText } from './fields.ts'

const Label = trimmedText(60).min(1, 'must not be empty')
const MarkId = z.string().regex(/^m\d{1,9}$/, 'must be the id of a mark, such as m4')
const Note = trimmedText(2_000)

/** Maximum number of marks per run. More lines would hide the chart. */
export const MAX_MARKS = 200

/** The input of `marks.create`. */
export const MarkInput = z.strictObject({
  run: RunName,
  step: Step,
  label: Label,
  note: Note.default(''),
})
export type MarkInput = z.infer<typeof MarkInput>

/** The input of `marks.update`. Only the given fields change. */
export const MarkUpdate = z.strictObject({
  id: MarkId,
  step: Step.optional(),
  label: Label.optional(),
  note: Note.optional(),
})
export type MarkUpdate = z.infer<typeof MarkUpdate>

/** The input of `marks.remove`. */
export const MarkRef = z.strictObject({ id: MarkId })

/** The input of `marks.list`. */
export const MarksInput = z.strictObject({ run: RunName })

/** A mark on the charts of a run, such as a change that explains a jump. */
export interface RunMarkDto {
  /** Null for an automatic mark, which shows a changed reward, a server registered or removed, or a rescore. */
  id: string | null
  kind: 'manual' | 'auto'
  step: number
  label: string
  note: string
  author: string | null
  at: string | null
}
