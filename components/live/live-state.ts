/**
 * What a tab knows about the live stream.
 *
 *            open                 down                  10 s
 *   waiting ------> open ------------------> reconnecting ----> cut
 *                     ^-----------------------------+------------+
 *                                   open
 *
 * Frozen lies across all of them: the stream goes on, the pages do not follow it.
 */
export interface LiveState {
  link: 'waiting' | 'open' | 'reconnecting' | 'cut'
  frozenAt: number | null
  /** When the link went down; null while it is open. */
  lostAt: number | null
  /** Changes that came while frozen. */
  missed: number
}

/** What moves the state; `at` in epoch milliseconds. */
export type LiveAction =
  | { type: 'link'; open: boolean; at: number }
  | { type: 'tick'; at: number }
  | { type: 'freeze'; at: number }
  | { type: 'resume' }
  | { type: 'changes' }

/** A link down for longer than this is cut, not merely reconnecting: two missed inactivity limits of 5 s. */
export const CUT_AFTER_MS = 10_000

/** The state of a page that has just opened. */
export const initialLive: LiveState = { link: 'waiting', frozenAt: null, lostAt: null, missed: 0 }

/** The next state; returns the same object when nothing changed, so that nothing is drawn again. */
export function liveReducer(state: LiveState, action: LiveAction): LiveState {
  switch (action.type) {
    case 'link':
      if (action.open) {
        return state.link === 'open' ? state : { ...state, link: 'open', lostAt: null }
      }
      return state.lostAt !== null
        ? state
        : {
            ...state,
            link: state.link === 'waiting' ? 'waiting' : 'reconnecting',
            lostAt: action.at,
          }
    case 'tick': {
      const down = state.lostAt !== null && action.at - state.lostAt >= CUT_AFTER_MS
      return down && state.link !== 'cut' ? { ...state, link: 'cut' } : state
    }
    case 'freeze':
      return state.frozenAt === null ? { ...state, frozenAt: action.at, missed: 0 } : state
    case 'resume':
      return state.frozenAt === null ? state : { ...state, frozenAt: null, missed: 0 }
    case 'changes':
      return state.frozenAt === null ? state : { ...state, missed: state.missed + 1 }
  }
}

/** The state in the words of the header. */
export interface LiveWords {
  word: 'Live' | 'Stale' | 'Frozen' | 'Connecting' | 'Reconnecting' | 'Cut'
  tone: 'ok' | 'idle' | 'warn' | 'bad'
  /** How old what is on the page is, in milliseconds; null when it is current or nothing came yet. */
  ageMs: number | null
}

/**
 * `dataAt`: when the page last received data, epoch milliseconds, null before the first. `failing`: what the page shows
 * could not be read again, whatever the stream says: a stream stays open while the database behind it is gone.
 */
export function liveWords(
  state: LiveState,
  dataAt: number | null,
  now: number,
  failing = false,
): LiveWords {
  const since = (at: number | null) => (at === null ? null : Math.max(0, now - at))
  if (state.frozenAt !== null) return { word: 'Frozen', tone: 'idle', ageMs: since(state.frozenAt) }
  switch (state.link) {
    case 'open':
      return failing
        ? { word: 'Stale', tone: 'bad', ageMs: since(dataAt) }
        : { word: 'Live', tone: 'ok', ageMs: null }
    case 'waiting':
      return { word: 'Connecting', tone: 'idle', ageMs: null }
    case 'reconnecting':
      return { word: 'Reconnecting', tone: 'warn', ageMs: since(dataAt ?? state.lostAt) }
    case 'cut':
      return { word: 'Cut', tone: 'bad', ageMs: since(dataAt ?? state.lostAt) }
  }
}
