import type { Role } from '../../server/contract/roles.ts'

/** The permissions of each role. */
export const ROLE_WORDS: Record<Role, string> = {
  viewer: 'Reads and exports. For dashboards and scrapers.',
  trainer: 'Also submits, scores, cancels, rescores and annotates. For training jobs.',
  admin: 'Also changes servers, keys, limits, monitors and retention.',
}
