import type { SavedViewDto } from '../../contract/saved-views.ts'
import type { Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'

type SavedViewRow = RowOf<SavedViewDto, 'createdAt' | 'updatedAt'>

const COLUMNS = `id, page, name, state, version, author, created_at as "createdAt", updated_at as "updatedAt"`

export async function savedViews(
  db: Database,
  page: string,
  limit: number,
): Promise<SavedViewRow[]> {
  return db.rows(
    'saved-views',
    `select ${COLUMNS} from saved_view where page = $1 order by lower(name), id limit $2`,
    [page, limit],
  )
}

export async function savedView(db: Database, id: number): Promise<SavedViewRow | undefined> {
  const [row] = await db.rows<SavedViewRow>(
    'saved-view',
    `select ${COLUMNS} from saved_view where id = $1`,
    [id],
  )
  return row
}

/** Stores a view. Returns undefined if the page already has a view of this name. */
export async function insertView(
  db: Database,
  view: Pick<SavedViewRow, 'page' | 'name' | 'state' | 'version' | 'author'>,
): Promise<SavedViewRow | undefined> {
  const [row] = await db.rows<SavedViewRow>(
    'insert-view',
    `insert into saved_view (page, name, state, version, author) values ($1, $2, $3, $4, $5)
     on conflict (page, name) do nothing returning ${COLUMNS}`,
    [view.page, view.name, view.state, view.version, view.author],
  )
  return row
}

/** Changes a view. Throws SQLSTATE 23505 if the page has another view of this name. */
export async function updateView(
  db: Database,
  id: number,
  change: { name?: string | undefined; state?: string | undefined; version: number },
): Promise<SavedViewRow | undefined> {
  const [row] = await db.rows<SavedViewRow>(
    'update-view',
    `update saved_view set name = coalesce($2, name), state = coalesce($3, state),
       version = case when $3 is null then version else $4 end, updated_at = now()
     where id = $1 returning ${COLUMNS}`,
    [id, change.name ?? null, change.state ?? null, change.version],
  )
  return row
}

export async function deleteView(db: Database, id: number): Promise<void> {
  await db.rows('delete-view', 'delete from saved_view where id = $1', [id])
}
