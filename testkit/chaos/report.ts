import type { EpisodeResult } from './episode.ts'
import { describeFault } from './schedule.ts'

/** An episode in one line. */
export function summaryLine({
  schedule,
  violations,
  samples,
  tookMs,
  notChecked,
}: EpisodeResult): string {
  const laws = [...new Set(violations.map(({ law }) => law))].join(',')
  const verdict = violations.length === 0 ? 'ok' : `VIOLATED ${laws}`
  return [
    `seed ${schedule.seed}`,
    schedule.setup.name,
    schedule.faults.map(describeFault).join(' + ') || 'no fault',
    `${samples} samples`,
    `${(tookMs / 1_000).toFixed(0)} s`,
    verdict + (notChecked.length > 0 ? ` (not checked: ${notChecked.join(', ')})` : ''),
  ].join('  ')
}

/** Prints an episode's violations with its schedule and the part of the history that offends. */
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
