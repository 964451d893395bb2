import type { SelfTestVerdict } from '../../server/contract/self-test-verdict.ts'
import { durationText, formatCount, formatScore, percentText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { VERDICT_LOOK } from '../ui/status.tsx'
import { engineName } from './server-words.ts'

export interface EvidenceRow {
  label: string
  value: string
  /** Lines of a program's output, shown verbatim. */
  lines?: string[]
}

const LABELS: Record<string, string> = {
  message: 'Response',
  why: 'Reason',
  failures: 'Consecutive failed probes',
  faultsInARow: 'Consecutive failed requests',
  faultPercent: 'Failed requests, %',
  calls: 'Requests checked',
  corruptIn60s: 'Invalid responses within 60 s',
  times: 'Latency relative to peers',
  silentMs: 'Time without response',
  expectedMs: 'Response expected within',
  inFlight: 'Requests in flight',
  omitted: 'Omitted changes',
  verdict: 'Verdict',
  override: 'Trusted anyway',
  raw: 'Raw score',
  activated: 'Activated score',
  calibration: 'Calibration score',
  baseline: 'Calibration score at registration',
  pool: 'Pool calibration scores',
  engine: 'Engine',
  version: 'Version',
  level: 'Sleep level',
  reportedAsleep: 'Reported as sleeping',
  refused: 'Refused',
  probeMs: 'Probe time',
  drainMs: 'Drain time',
  sleepMs: 'Sleep time',
  wakeMs: 'Wake time',
  livedMs: 'Uptime',
  exitCode: 'Exit code',
  signal: 'Signal',
  program: 'Program',
  source: 'Launched by',
  lastLines: 'Last log lines',
  process: 'Observed by',
}

const WORDS: Record<string, string> = {
  half_open: 'Half-open',
  slow_start: 'Slow start',
  server: 'Server process',
  call: 'servers.launch',
  file: 'Servers file',
}

// Machine-readable fields are omitted, because other fields describe them in words.
const LEFT_OUT: ReadonlySet<string> = new Set(['reason', 'cause'])

const ORDER = Object.keys(LABELS)
const place = (key: string) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length)

/** Converts the evidence of an event to labels and values. Related values are adjacent; empty ones are omitted. */
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

/** `errorRate` → `Error rate`, without its unit suffix. */
function labelOf(key: string): string {
  const words = key
    .replace(/(Ms|Share|PerSecond)$/, '')
    .replace(/_/g, ' ')
    .replace(/([a-z\d])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`)
  return capitalized(words)
}

function valueText(key: string, value: unknown): string {
  if (typeof value === 'boolean') return value ? 'Yes' : 'No'
  if (typeof value === 'number') {
    if (/Ms$/.test(key)) return durationText(value)
    if (/Share$/.test(key)) return percentText(value)
    if (/PerSecond$/.test(key)) return `${formatScore(value)} per second`
    return Number.isInteger(value) ? formatCount(value) : formatScore(value)
  }
  if (key === 'engine') return engineName(String(value))
  if (key === 'verdict') return VERDICT_LOOK[value as SelfTestVerdict]?.text ?? String(value)
  if (typeof value === 'string') return WORDS[value] ?? value
  if (Array.isArray(value)) return value.map((item) => itemText(item)).join(', ')
  return itemText(value)
}

function itemText(item: unknown): string {
  if (typeof item !== 'object' || item === null) return valueText('', item)
  // An item such as `{ name, calibration }` becomes the name and its number.
  const { name, ...rest } = item as Record<string, unknown>
  const parts = Object.entries(rest)
    .filter(([, value]) => value !== null)
    .map(([key, value]) =>
      name === undefined ? `${labelOf(key)} ${valueText(key, value)}` : valueText(key, value),
    )
  return [name === undefined ? '' : String(name), ...parts].filter((part) => part !== '').join(' ')
}
