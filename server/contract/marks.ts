import { z } from 'zod'

const RunName = z.string().min(1).max(256)
const Step = z.int().min(0).max(2_147_483_647)
const Label = z.string().trim().min(1).max(60)
const Note = z.string().trim().max(2_000)

/** Marks that a run may have; so many lines on a chart hide it. */
export const MAX_MARKS = 200

/** `marks.create`. */
export const MarkInput = z.strictObject({
  run: RunName,
  step: Step,
  label: Label,
  note: Note.default(''),
})
export type MarkInput = z.infer<typeof MarkInput>

/** `marks.update`: what is given changes. */
export const MarkUpdate = z.strictObject({
  id: z.string().max(20),
  step: Step.optional(),
  label: Label.optional(),
  note: Note.optional(),
})
export type MarkUpdate = z.infer<typeof MarkUpdate>

/** `marks.remove`. */
export const MarkRef = z.strictObject({ id: z.string().max(20) })

/** `marks.list`. */
export const MarksInput = z.strictObject({ run: RunName })

/** Where something changed that explains a jump. */
export interface RunMarkDto {
  /** The id; null for an automatic mark, where another reward began to score. */
  id: string | null
  kind: 'manual' | 'auto'
  step: number
  label: string
  note: string
  author: string | null
  at: string | null
}
