import {
  durationText,
  formatCount,
  formatPercent,
  formatScore,
  quantityText,
} from '../format/numbers.ts'

/** One thing that was seen, in words. */
export interface EvidenceRow {
  label: string
  value: string
  /** Lines of a program's output, to be shown as they are. */
  lines?: string[]
}

/** What the service calls it, what a person would. */
const LABELS: Record<string, string> = {
  probeMs: 'The probe took',
  drainMs: 'Draining took',
  sleepMs: 'Falling asleep took',
  wakeMs: 'Waking took',
  livedMs: 'It had run for',
  faultsInARow: 'Faults in a row',
  corruptIn60s: 'Corrupt answers within 60 s',
  failures: 'Failures in a row',
  verdict: 'Verdict',
  raw: 'Asked raw it gave',
  activated: 'Asked activated it gave',
  calibration: 'Calibration score',
  baseline: 'Calibration score at registration',
  pool: 'The pool’s calibration scores',
  process: 'Seen by',
  version: 'Version',
  engine: 'Engine',
  why: 'Why',
  level: 'Sleep level',
  told: 'It told that it sleeps',
  refused: 'It was refused',
  override: 'Overridden',
  exitCode: 'Exit code',
  signal: 'Signal',
  lastLines: 'Its last lines',
  omitted: 'Changes not listed',
  program: 'Program',
  faultPercent: 'Calls that failed, %',
  calls: 'Calls looked at',
  times: 'Times as slow as its peers',
  silentMs: 'Silent for',
  expectedMs: 'Expected to answer within',
  inFlight: 'Calls in flight',
  message: 'What came back',
  source: 'Launched by',
}

const WORDS: Record<string, string> = {
  not_applicable: 'not applicable',
  half_open: 'half open',
  slow_start: 'slow start',
  server: 'the server process',
}

// Words for machines, said in words by what stands beside them.
const LEFT_OUT: ReadonlySet<string> = new Set(['reason', 'cause'])

/** Evidence of an event as rows of words, in the order it came; empty things are left out. */
export function prepareEvidence(evidence: Record<string, unknown> | null): EvidenceRow[] {
  return Object.entries(evidence ?? {}).flatMap(([key, value]) => {
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
