import type { KeyAccess, Role } from '../../server/contract/roles.ts'

export const ROLE_WORDS: Record<Role, string> = {
  viewer: 'Reads and exports. For dashboards and scrapers.',
  trainer: 'Also submits, scores, cancels, rescores and annotates. For training jobs.',
  admin: 'Also changes servers, keys, limits, monitors and retention.',
}

/** Label and permissions of each access level of a key. A level narrows the role of the key. */
export const ACCESS_WORDS: Record<KeyAccess, { label: string; about: string }> = {
  full: { label: 'Full', about: 'All permissions of the role.' },
  submit: {
    label: 'Submit only',
    about: 'Submits and scores samples, and reads their results. It cannot sign in.',
  },
  read: { label: 'Read only', about: 'Reads and exports. It cannot change anything.' },
}
