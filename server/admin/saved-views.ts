import type { Actor } from '../contract/roles.ts'
import {
  MAX_VIEWS,
  type SavedViewDto,
  type SaveViewInput,
  type UpdateViewInput,
  VIEW_VERSION,
} from '../contract/saved-views.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { toDto } from '../store/row-of.ts'
import {
  deleteView,
  insertView,
  savedView,
  savedViews,
  updateView,
} from '../store/sql/saved-views.ts'

/** Manages saved views of pages. All users see them; only the author or an admin can change or delete one. */
export class SavedViews {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  async list(page: string): Promise<SavedViewDto[]> {
    return (await savedViews(this.#db, page, MAX_VIEWS)).map(toDto)
  }

  /** @throws RewardOpsError `view_not_found` */
  async get(id: number): Promise<SavedViewDto> {
    const row = await savedView(this.#db, id)
    if (row === undefined) throw notFound(id)
    return toDto(row)
  }

  /** @throws RewardOpsError `view_exists`, `too_many_views` */
  async save(input: SaveViewInput, actor: Actor): Promise<SavedViewDto> {
    if ((await savedViews(this.#db, input.page, MAX_VIEWS)).length >= MAX_VIEWS) {
      throw new RewardOpsError('too_many_views', `The page has ${MAX_VIEWS} saved views.`)
    }
    const row = await insertView(this.#db, { ...input, version: VIEW_VERSION, author: actor.name })
    if (row === undefined) throw taken(input.name)
    return toDto(row)
  }

  /** @throws RewardOpsError `view_not_found`, `not_the_author`, `view_exists` */
  async update({ id, ...change }: UpdateViewInput, actor: Actor): Promise<SavedViewDto> {
    await this.#own(id, actor)
    try {
      const row = await updateView(this.#db, id, { ...change, version: VIEW_VERSION })
      if (row === undefined) throw notFound(id)
      return toDto(row)
    } catch (error) {
      if ((error as { code?: string }).code === '23505') throw taken(change.name ?? '')
      throw error
    }
  }

  /** @throws RewardOpsError `view_not_found`, `not_the_author` */
  async remove(id: number, actor: Actor): Promise<{ removed: true }> {
    await this.#own(id, actor)
    await deleteView(this.#db, id)
    return { removed: true }
  }

  async #own(id: number, actor: Actor): Promise<void> {
    const row = await savedView(this.#db, id)
    if (row === undefined) throw notFound(id)
    if (row.author !== actor.name && actor.role !== 'admin') {
      throw new RewardOpsError('not_the_author', `"${row.name}" was saved by ${row.author}.`)
    }
  }
}

function notFound(id: number): RewardOpsError {
  return new RewardOpsError('view_not_found', `There is no saved view ${id}.`)
}

function taken(name: string): RewardOpsError {
  return new RewardOpsError('view_exists', `A view named "${name}" already exists.`)
}
