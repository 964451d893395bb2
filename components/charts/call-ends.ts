import type { CallEnd } from './server-minutes.prepare.ts'

/** The label and color of each request outcome; failures are also hatched. */
export const CALL_END_LOOK: Record<CallEnd, { word: string; color: string }> = {
  answered: { word: 'answered', color: 'var(--data-1)' },
  failed: { word: 'failed', color: 'var(--bad)' },
  busy: { word: 'busy', color: 'var(--data-2)' },
  refused: { word: 'refused (4xx)', color: 'var(--data-4)' },
  corrupt: { word: 'invalid response', color: 'var(--data-5)' },
}
