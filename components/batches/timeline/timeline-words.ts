import { durationText, formatCount, plural } from '../../format/numbers.ts'
import { shortenMiddle } from '../../format/text.ts'
import {
  LEAST_LOST_MS,
  type TimelineData,
  type TimelineRow,
  WAIT_CAUSES,
  type WaitCause,
} from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'

/** What a sample waited on, in a word and in a sentence. */
export const CAUSE_WORDS: Readonly<Record<WaitCause, { word: string; about: string }>> = {
  queue: {
    word: 'queue',
    about:
      'Not dispatched yet: in the queue, or at a worker until a server was free (recorded apart only for samples with more than one call).',
  },
  router: { word: 'router', about: 'At a worker until a server was free.' },
  service: { word: 'service', about: 'For the answer of the server, or of the rule.' },
  retry: { word: 'retry', about: 'A call that failed and was made again, and the pause before.' },
}

/** Time lost by cause, the longest first: `service 3.20 s, retry 1.05 s`. Empty where nothing was. */
export function causesText(waits: Readonly<Record<WaitCause, number>>): string {
  return WAIT_CAUSES.filter((cause) => waits[cause] >= 0.05)
    .sort((a, b) => waits[b] - waits[a])
    .map((cause) => `${CAUSE_WORDS[cause].word} ${durationText(waits[cause])}`)
    .join(', ')
}

/** What a group's last sample waited on, in a cell: the longest; `–` where it lost nothing worth telling. */
export function waitedOn(row: TimelineRow): string {
  if (row.cause === null || row.lostMs < LEAST_LOST_MS) return '–'
  const by = row.cause === 'service' && row.last?.server ? ` at ${row.last.server}` : ''
  return CAUSE_WORDS[row.cause].word + by
}

/** A group in a line: what is read out when it is reached by key. */
export function groupText(row: TimelineRow): string {
  const { track } = row
  const name = track.seq > 0 ? `Group ${formatCount(track.seq)}` : 'Running group'
  const parts = [`${name}, ${shortenMiddle(track.uid, 24)}`, plural(track.size, 'sample')]
  if (row.failed > 0) parts.push(`${formatCount(row.failed)} failed`)
  if (row.startMs !== null)
    parts.push(
      `${track.samples.length > 0 ? 'first dispatched' : 'taken by a worker'} at ${durationText(row.startMs)}`,
    )
  if (row.endMs !== null) parts.push(`complete at ${durationText(row.endMs)}`)
  else
    parts.push(
      `${formatCount(track.samples.length)} ended${track.held > 0 ? `, ${formatCount(track.held)} at workers` : ''}`,
    )
  if (row.lostMs >= LEAST_LOST_MS && row.last)
    parts.push(
      `${durationText(row.lostMs)} lost to its last sample #${row.last.index}: ${causesText(row.waits)}`,
    )
  return `${parts.join(' · ')}`
}

/** A sample in a line. */
export function sampleText(mark: SampleMark): string {
  const parts = [`Sample #${mark.index}`]
  if (mark.dispatchedMs === null) parts.push('never dispatched')
  else
    parts.push(
      `dispatched at ${durationText(mark.dispatchedMs)}, ended ${durationText(Math.max(0, mark.endedMs - mark.dispatchedMs))} later`,
    )
  parts.push(mark.reason === null ? 'scored' : `failed: ${mark.reason}`)
  if (mark.server !== null) parts.push(mark.server)
  if (mark.attempts > 1) parts.push(plural(mark.attempts, 'call'))
  return parts.join(' · ')
}

/** n and units, beside the title. */
export function countsText(data: TimelineData, groups: number): string {
  return `n = ${formatCount(data.complete)} of ${plural(groups, 'group')}, ${plural(data.samples, 'sample')} ended · time since acceptance`
}

/** What the batch lost, in a sentence; null while nothing is worth telling. */
export function lostText(data: TimelineData): string | null {
  if (data.complete === 0) return null
  const n = data.stragglers.size
  if (n === 0) return 'No stragglers: no group waited long for its last sample.'
  return `${plural(n, 'straggler')} · ${durationText(data.lostMs)} lost to last samples, summed over the groups`
}
