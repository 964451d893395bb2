import type { EpisodeResult } from './episode.ts'
import type { HistoryEvent } from './history.ts'
import { describeFault } from './schedule.ts'

export function summaryLine({
  schedule,
  violations,
  samples,
  tookMs,
  notChecked,
  history,
}: EpisodeResult): string {
  const laws = [...new Set(violations.map(({ law }) => law))].join(',')
  const verdict = violations.length === 0 ? 'ok' : `VIOLATED ${laws}`
  return [
    `seed ${schedule.seed}`,
    schedule.setup.name,
    schedule.faults.map(describeFault).join(' + ') || 'no fault',
    `${samples} samples`,
    sentTwice(history.events),
    `unready ${unreadySeconds(history.events).toFixed(1)} s`,
    `${(tookMs / 1_000).toFixed(0)} s`,
    verdict + (notChecked.length > 0 ? ` (not checked: ${notChecked.join(', ')})` : ''),
  ].join('  ')
}

function sentTwice(events: readonly HistoryEvent[]): string {
  const sent = events.flatMap((event) => (event.e === 'rm-start' ? event.ids : []))
  const texts = new Set(sent).size
  return `${sent.length - texts} of ${texts} texts sent again`
}

function unreadySeconds(events: readonly HistoryEvent[]): number {
  const probes = events.filter((event) => event.e === 'ready')
  let ms = 0
  for (const [i, { at, status }] of probes.entries()) {
    if (status !== 200) ms += (probes[i + 1]?.at ?? at) - at
  }
  return ms / 1_000
}

export function printViolations({ schedule, violations, history }: EpisodeResult): void {
  console.log(`  schedule: ${JSON.stringify({ ...schedule, setup: schedule.setup.name })}`)
  const faults = history.events.filter(({ e }) => ['fault', 'healed', 'phase', 'exit'].includes(e))
  for (const event of faults)
    console.log(`  | ${stamp(event.at)} ${JSON.stringify({ ...event, at: undefined })}`)
  for (const { law, message, evidence } of violations) {
    console.log(`  ${law}: ${message}`)
    for (const event of evidence) {
      const text = JSON.stringify({ ...event, at: undefined })
      console.log(`    ${stamp(event.at)} ${text.slice(0, 400)}${text.length > 400 ? '…' : ''}`)
    }
  }
}

function stamp(at: number): string {
  return Number.isFinite(at) ? new Date(at).toISOString().slice(11, 23) : 'never'
}
