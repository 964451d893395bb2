import type { Role } from '../../server/wire/roles.ts'

/** What a role may do, in a line. */
export const ROLE_WORDS: Record<Role, string> = {
  viewer: 'Reads everything, exports, and changes nothing. For dashboards and scrapers.',
  trainer: 'Also submits, scores, cancels, scores again and annotates. For training jobs.',
  admin: 'Also changes servers, keys, limits, monitors and what is kept.',
}
