import type { CallEnd } from './server-minutes.prepare.ts'

/** How each end of a call is called and coloured; a failure is hatched as well as red. */
export const CALL_END_LOOK: Record<CallEnd, { word: string; color: string }> = {
  answered: { word: 'answered', color: 'var(--data-1)' },
  failed: { word: 'failed', color: 'var(--bad)' },
  busy: { word: 'busy', color: 'var(--data-2)' },
  refused: { word: 'refused (4xx)', color: 'var(--data-4)' },
  corrupt: { word: 'no score in it', color: 'var(--data-5)' },
}
