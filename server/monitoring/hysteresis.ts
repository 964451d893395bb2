import type { MonitorDefinition, MonitorState, Severity } from '../contract/monitors.ts'

/**
 * A value is clear of a threshold if it is better by this share of the threshold. A value in between is neither clear
 * of the threshold nor beyond it, and resets both counts.
 */
const MARGIN = 0.1
/** Consecutive clear batches after which an incident closes or its severity falls. */
export const CLOSE_AFTER = 3

export interface Standing {
  state: MonitorState
  /** Consecutive batches beyond each threshold. */
  beyondWarning: number
  beyondAlerting: number
  /** Consecutive batches clear of each threshold. */
  clearOfWarning: number
  clearOfAlerting: number
  incident: number | null
  worst: number | null
  worstStep: number | null
  /** See `Watched.reference`. */
  reference: number | null
  value: number | null
  n: number
  step: number
}

export function newStanding(): Standing {
  return {
    ...{ state: 'insufficient', beyondWarning: 0, beyondAlerting: 0 },
    ...{ clearOfWarning: 0, clearOfAlerting: 0, incident: null, worst: null, worstStep: null },
    ...{ reference: null, value: null, n: 0, step: 0 },
  }
}

export type Limits = Pick<MonitorDefinition, 'bad' | 'warning' | 'alerting' | 'openAfter'> & {
  enabled: boolean
}

export type Change = 'opened' | 'escalated' | 'eased' | 'resolved'

/**
 * The state of a monitor after the next batch.
 *
 *   insufficient ◀──no value─▶ ok ──openAfter beyond──▶ warning ──openAfter beyond──▶ alerting
 *                              ▲                          │  ▲                          │
 *                              └──CLOSE_AFTER clear───────┘  └──CLOSE_AFTER clear───────┘
 *
 * A batch without a value changes no count and closes nothing, because missing data is not a sign of health.
 */
export function advance(
  before: Standing,
  reading: { value: number | null; n: number },
  step: number,
  limits: Limits,
): { after: Standing; change: Change | null } {
  const after: Standing = { ...before, value: reading.value, n: reading.n, step }
  const isOpen = before.state === 'warning' || before.state === 'alerting'
  if (!limits.enabled) {
    return {
      after: { ...newStanding(), value: reading.value, n: reading.n, step },
      change: isOpen ? 'resolved' : null,
    }
  }
  const { value } = reading
  if (value === null) {
    if (!isOpen) after.state = 'insufficient'
    return { after, change: null }
  }
  const count = (was: number, does: boolean) => (does ? was + 1 : 0)
  after.beyondWarning = count(before.beyondWarning, isBeyond(value, limits.warning, limits))
  after.beyondAlerting = count(before.beyondAlerting, isBeyond(value, limits.alerting, limits))
  after.clearOfWarning = count(before.clearOfWarning, isClear(value, limits.warning, limits))
  after.clearOfAlerting = count(before.clearOfAlerting, isClear(value, limits.alerting, limits))
  const to = stateAfter(before.state, after, limits.openAfter)
  after.state = to
  const isWorse = before.worst === null || badness(value, limits) > badness(before.worst, limits)
  if (to === 'ok') Object.assign(after, { worst: null, worstStep: null })
  else if (isWorse) Object.assign(after, { worst: value, worstStep: step })
  return { after, change: changeOf(isOpen ? before.state : 'ok', to) }
}

function stateAfter(state: MonitorState, after: Standing, openAfter: number): 'ok' | Severity {
  if (after.beyondAlerting >= openAfter) return 'alerting'
  if (state === 'alerting') {
    if (after.clearOfWarning >= CLOSE_AFTER) return 'ok'
    return after.clearOfAlerting >= CLOSE_AFTER ? 'warning' : 'alerting'
  }
  if (state === 'warning') return after.clearOfWarning >= CLOSE_AFTER ? 'ok' : 'warning'
  return after.beyondWarning >= openAfter ? 'warning' : 'ok'
}

function changeOf(from: MonitorState, to: 'ok' | Severity): Change | null {
  if (from === to) return null
  if (to === 'ok') return 'resolved'
  if (from === 'ok') return 'opened'
  return to === 'alerting' ? 'escalated' : 'eased'
}

function badness(value: number, { bad }: Pick<Limits, 'bad'>): number {
  return bad === 'below' ? -value : bad === 'size' ? Math.abs(value) : value
}

export function isBeyond(value: number, threshold: number, of: Pick<Limits, 'bad'>): boolean {
  return badness(value, of) >= badness(threshold, of)
}

function isClear(value: number, threshold: number, of: Pick<Limits, 'bad'>): boolean {
  return badness(value, of) < badness(threshold, of) - MARGIN * Math.abs(threshold)
}
