import { durationText, formatCount, plural } from '../../format/numbers.ts'
import { capitalized, shortenMiddle } from '../../format/text.ts'
import {
  MIN_STRAGGLER_DELAY_MS,
  type TimelineData,
  type TimelineRow,
  WAIT_CAUSES,
  type WaitCause,
} from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'

export const CAUSE_WORDS: Readonly<Record<WaitCause, { word: string; about: string }>> = {
  queue: {
    word: 'queue',
    about:
      'Before its first dispatch, the sample waited in the queue, or at a worker for a free server. The two waits are recorded separately only for samples with several attempts or a failure.',
  },
  router: { word: 'router', about: 'The sample waited at a worker for a free server.' },
  service: {
    word: 'scoring',
    about:
      'The sample waited for the response of the server, or for the rule, until its result was written.',
  },
  retry: { word: 'retry', about: 'A request failed and was retried after a backoff.' },
}

/** A wait with its cause: `scoring 3.20 s`. */
export function waitText(cause: WaitCause, ms: number): string {
  return `${CAUSE_WORDS[cause].word} ${durationText(ms)}`
}

/**
 * The longer stage of a sample with its duration: the queue, or scoring, which lasts from the first dispatch to the
 * result.
 */
export function longerStage(sample: { queueMs: number; scoreMs: number }): string {
  const { queueMs, scoreMs } = sample
  return queueMs > scoreMs ? waitText('queue', queueMs) : waitText('service', scoreMs)
}

/** Delay by cause, longest first: `scoring 3.20 s, retry 1.05 s`. Empty if there is no delay. */
export function causesText(waits: Readonly<Record<WaitCause, number>>): string {
  return WAIT_CAUSES.filter((cause) => waits[cause] >= 0.05)
    .sort((a, b) => waits[b] - waits[a])
    .map((cause) => waitText(cause, waits[cause]))
    .join(', ')
}

export function waitedOn(row: TimelineRow): string {
  if (row.cause === null || row.stragglerDelayMs < MIN_STRAGGLER_DELAY_MS) return '–'
  const by = row.cause === 'service' && row.last?.server ? ` at ${row.last.server}` : ''
  return capitalized(CAUSE_WORDS[row.cause].word) + by
}

/** A group as one line, which screen readers read out when a key selects the group. */
export function groupText(row: TimelineRow, isStraggler: boolean): string {
  const { track } = row
  const name = track.seq > 0 ? `Group ${formatCount(track.seq)}` : 'Running group'
  const parts = [`${name}, ${shortenMiddle(track.uid, 24)}`, plural(track.size, 'sample')]
  if (row.failed > 0) parts.push(`${formatCount(row.failed)} failed`)
  if (row.startMs !== null)
    parts.push(
      `${track.samples.length > 0 ? 'first dispatched' : 'claimed by a worker'} at ${durationText(row.startMs)}`,
    )
  if (row.endMs !== null) parts.push(`completed at ${durationText(row.endMs)}`)
  else
    parts.push(
      `${formatCount(track.samples.length)} finished${track.claimed > 0 ? `, ${formatCount(track.claimed)} claimed by workers` : ''}`,
    )
  if (row.stragglerDelayMs >= MIN_STRAGGLER_DELAY_MS && row.last)
    parts.push(
      `${isStraggler ? 'straggler delay' : 'waited'} ${durationText(row.stragglerDelayMs)} ${isStraggler ? 'by' : 'for'} sample #${row.last.index}: ${causesText(row.waits)}`,
    )
  return `${parts.join(' · ')}`
}

export function sampleText(mark: SampleMark): string {
  const parts = [`Sample #${mark.index}`]
  if (mark.dispatchedMs === null) parts.push('never dispatched')
  else
    parts.push(
      `dispatched at ${durationText(mark.dispatchedMs)}, ended ${durationText(Math.max(0, mark.endedMs - mark.dispatchedMs))} later`,
    )
  parts.push(mark.reason === null ? 'scored' : `failed: ${mark.reason}`)
  if (mark.server !== null) parts.push(mark.server)
  if (mark.attempts > 1) parts.push(plural(mark.attempts, 'attempt'))
  return parts.join(' · ')
}

export function countsText(data: TimelineData, groups: number): string {
  return `n = ${formatCount(data.complete)} of ${plural(groups, 'group')}, ${plural(data.samples, 'sample')} finished · time since acceptance`
}

export function stragglersText(data: TimelineData): string | null {
  if (data.complete === 0) return null
  const n = data.stragglers.size
  if (n === 0) return 'No stragglers'
  return `${plural(n, 'straggler')} · straggler delay ${durationText(data.stragglerDelayMs)}${n > 1 ? ' in total' : ''}`
}
