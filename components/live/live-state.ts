/**
 * The state of the live stream in a tab.
 *
 *            open                 down                  10 s
 *   waiting ------> open ------------------> reconnecting ----> cut
 *                     ^-----------------------------+------------+
 *                                   open
 *
 * A waiting link is also cut after 10 s. Pausing does not affect the link: the stream continues, but pages do not
 * refetch.
 */
export interface LiveState {
  link: 'waiting' | 'open' | 'reconnecting' | 'cut'
  frozenAt: number | null
  /** The time at which the link went down; null while it is open. */
  lostAt: number | null
  /** Number of changes that arrived while paused. */
  missed: number
}

/** State transitions; `at` in epoch milliseconds. */
export type LiveAction =
  | { type: 'link'; open: boolean; at: number }
  | { type: 'tick'; at: number }
  | { type: 'freeze'; at: number }
  | { type: 'resume' }
  | { type: 'changes' }

/** A link that is down for this long counts as disconnected. */
export const CUT_AFTER_MS = 10_000

export const initialLive: LiveState = { link: 'waiting', frozenAt: null, lostAt: null, missed: 0 }

/** The reducer. It returns the same object if nothing changed, to avoid a render. */
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

interface LiveWords {
  word: 'Live' | 'Stale' | 'Paused' | 'Connecting' | 'Reconnecting' | 'Disconnected'
  tone: 'ok' | 'idle' | 'warn' | 'bad'
  /** The age of the data on the page, in milliseconds; null when current or before the first data. */
  ageMs: number | null
}

/**
 * The header texts of a state. `dataAt` is the time at which data last arrived, epoch ms; null before the first data.
 * `failing` means that a query on the page failed to refetch. This is possible while the stream is open, for example
 * when the database is down.
 */
export function liveWords(
  state: LiveState,
  dataAt: number | null,
  now: number,
  failing = false,
): LiveWords {
  const since = (at: number | null) => (at === null ? null : Math.max(0, now - at))
  if (state.frozenAt !== null) return { word: 'Paused', tone: 'idle', ageMs: since(state.frozenAt) }
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
      return { word: 'Disconnected', tone: 'bad', ageMs: since(dataAt ?? state.lostAt) }
  }
}
