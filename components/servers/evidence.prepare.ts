import type { ServerDto } from '../../server/wire/servers.ts'
import {
  durationText,
  formatCount,
  formatPercent,
  formatScore,
  quantityText,
} from '../format/numbers.ts'
import { ENGINE_WORDS } from './server-words.ts'

/** One thing that was seen, in words. */
export interface EvidenceRow {
  label: string
  value: string
  /** Lines of a program's output, to be shown as they are. */
  lines?: string[]
}

/** What the service calls it, what a person would. */
const LABELS: Record<string, string> = {
  message: 'What came back',
  why: 'Why',
  failures: 'Failures in a row',
  faultsInARow: 'Faults in a row',
  faultPercent: 'Calls that failed, %',
  calls: 'Calls looked at',
  corruptIn60s: 'Corrupt answers within 60 s',
  times: 'Times as slow as its peers',
  silentMs: 'Silent for',
  expectedMs: 'Expected to answer within',
  inFlight: 'Calls in flight',
  omitted: 'Changes not listed',
  verdict: 'Verdict',
  override: 'Overridden',
  raw: 'Asked raw it gave',
  activated: 'Asked activated it gave',
  calibration: 'Calibration score',
  baseline: 'Calibration score at registration',
  pool: 'The pool’s calibration scores',
  engine: 'Engine',
  version: 'Version',
  level: 'Sleep level',
  told: 'It told that it sleeps',
  refused: 'It was refused',
  probeMs: 'The probe took',
  drainMs: 'Draining took',
  sleepMs: 'Falling asleep took',
  wakeMs: 'Waking took',
  livedMs: 'It had run for',
  exitCode: 'Exit code',
  signal: 'Signal',
  program: 'Program',
  source: 'Launched by',
  lastLines: 'Its last lines',
  process: 'Seen by',
}

const WORDS: Record<string, string> = {
  not_applicable: 'not applicable',
  half_open: 'half open',
  slow_start: 'slow start',
  server: 'the server process',
  call: 'a call of servers.launch',
  file: 'the servers file',
}

// Words for machines, said in words by what stands beside them.
const LEFT_OUT: ReadonlySet<string> = new Set(['reason', 'cause'])

const ORDER = Object.keys(LABELS)
const place = (key: string) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length)

/** Evidence of an event as rows of words, what belongs together side by side; empty things are left out. */
export function prepareEvidence(evidence: Record<string, unknown> | null): EvidenceRow[] {
  const entries = Object.entries(evidence ?? {}).sort(([a], [b]) => place(a) - place(b))
  return entries.flatMap(([key, value]) => {
    if (value === null || value === undefined || value === '' || LEFT_OUT.has(key)) return []
    const label = LABELS[key] ?? labelOf(key)
    if (key === 'lastLines' && Array.isArray(value)) {
      return value.length === 0 ? [] : [{ label, value: '', lines: value.map(String) }]
    }
    const text = valueText(key, value)
    return text === '' ? [] : [{ label, value: text }]
  })
}

/** `errorRate` → `Error rate`, its unit taken off the end. */
function labelOf(key: string): string {
  const words = key
    .replace(/(Ms|Share|PerSecond)$/, '')
    .replace(/_/g, ' ')
    .replace(/([a-z\d])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

function valueText(key: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') {
    if (/Ms$/.test(key)) return durationText(value)
    if (/Share$/.test(key)) return quantityText(formatPercent(value))
    if (/PerSecond$/.test(key)) return `${formatScore(value)} a second`
    return Number.isInteger(value) ? formatCount(value) : formatScore(value)
  }
  if (key === 'engine') return ENGINE_WORDS[value as ServerDto['engine']] ?? String(value)
  if (typeof value === 'string') return WORDS[value] ?? value
  if (Array.isArray(value)) return value.map((item) => itemText(item)).join(', ')
  return itemText(value)
}

function itemText(item: unknown): string {
  if (typeof item !== 'object' || item === null) return valueText('', item)
  // `{ name, calibration }`: a name and its number.
  const { name, ...rest } = item as Record<string, unknown>
  const parts = Object.entries(rest)
    .filter(([, value]) => value !== null)
    .map(([key, value]) =>
      name === undefined ? `${labelOf(key)} ${valueText(key, value)}` : valueText(key, value),
    )
  return [name === undefined ? '' : String(name), ...parts].filter((part) => part !== '').join(' ')
}
