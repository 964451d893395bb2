import { z } from 'zod'
import { MAX_INT4, storableText, trimmedText } from './fields.ts'

/** The current version of the format of `state`. */
export const VIEW_VERSION = 1
/** Maximum number of saved views per page. */
export const MAX_VIEWS = 200

const page = z.enum(['samples'])
const name = trimmedText(80).min(1, 'must not be empty')
const state = storableText(8_000)

/** The input of `views.list`: a page. */
export const ViewsInput = z.strictObject({ page })
/** The input of `views.save`. */
export const SaveViewInput = z.strictObject({
  page,
  name,
  /** The query string of the page. */
  state,
})
export type SaveViewInput = z.infer<typeof SaveViewInput>
/** A saved view, by id. */
export const ViewRef = z.strictObject({ id: z.int().min(1).max(MAX_INT4) })
/** The input of `views.update`. Only the given fields change. */
export const UpdateViewInput = ViewRef.extend({
  name: name.optional(),
  /** The query string of the page. */
  state: state.optional(),
})
export type UpdateViewInput = z.infer<typeof UpdateViewInput>

/** A query string of a page, saved under a name. */
export interface SavedViewDto {
  id: number
  page: z.infer<typeof page>
  name: string
  /** The query string of the page, without `?`. */
  state: string
  /** The version of the format of `state`. */
  version: number
  author: string
  createdAt: string
  updatedAt: string
}
