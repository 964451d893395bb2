import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { GroupSignalCounts } from '../../server/contract/group-signal.ts'
import type { Distribution } from '../../server/contract/pages.ts'

/** The output of recompute.py, with the field names of the API. */
export interface Numbers {
  batches: Record<string, BatchNumbers>
  runs: Record<string, Partial<Record<'train' | 'val', RunNumbers>>>
}
export interface BatchNumbers extends Record<string, unknown> {
  samples: number
  scored: number
  failed: number
  groups: number
  groupsCompleted: number
  retries: number
  tookMs: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  distribution: Distribution
  dataSources: Record<
    string,
    { samples: number; scored: number; failed: number; mean: number | null }
  >
  failures: Record<string, number>
  servers: Record<string, { samples: number; p50Ms: number; p99Ms: number }>
  queueMsP50: number
  queueMsP95: number
  scoreMsP50: number
  scoreMsP95: number
  groupSignals: GroupSignalCounts
  completion: { ms: number; groups: number }[]
  groupRows: GroupNumbers[]
  timeline: {
    samples: Record<string, MarkNumbers>
    groups: TimelineGroupNumbers[]
    stragglerDelayMs: number
    stragglers: number
  }
}
interface GroupNumbers extends Record<string, unknown> {
  uid: string
  seq: number
  completedMs: number
  size: number
  mean: number | null
  std: number | null
  signal: keyof GroupSignalCounts
  slowestIndex: number
  slowestQueueMs: number
  slowestScoreMs: number
  indices: number[]
  advantages: (number | null)[]
}
interface MarkNumbers {
  dispatchedMs: number | null
  endedMs: number
  server: string | null
  reason: string | null
  attempts: number
}
interface TimelineGroupNumbers {
  uid: string
  seq: number
  size: number
  startMs: number | null
  endMs: number
  completedMs: number
  medianMs: number | null
  stragglerDelayMs: number
  failed: number
}
interface StepNumbers extends Record<string, unknown> {
  step: number
  batchId: string
  samples: number
  scored: number
  failed: number
  n: number
  mean: number | null
  std: number | null
  quantiles: number[] | null
  groupSignals: GroupSignalCounts
  reasons: Record<string, number>
  waitMs: number
  stepMs: number | null
  queueMsP50: number
  scoreMsP50: number
  scoreMsP95: number
}
export interface RunNumbers {
  batches: number
  samples: number
  scored: number
  failed: number
  steps: StepNumbers[]
  sources: Record<
    string,
    {
      samples: number
      points: {
        step: number
        n: number
        mean: number
        q25: number
        q75: number
        failed: number
      }[]
    }
  >
  heat: {
    kind: 'values' | 'bins'
    edges: number[]
    steps: { step: number; shares: number[] }[]
  } | null
  components: Record<
    string,
    { batchId: string; step: number; n: number; mean: number; std: number }[]
  >
}

export interface Facts {
  onFailure?: string
  normByStd?: boolean
  /** Reward extra info keys that are components of the reward. */
  components?: string[]
}

export function havePython(): boolean {
  try {
    execFileSync('python3', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export function recompute(folder: string, lines: string, facts: Record<string, Facts>): Numbers {
  const [samples, factsFile] = [join(folder, 'samples.jsonl'), join(folder, 'facts.json')]
  writeFileSync(samples, lines)
  writeFileSync(factsFile, JSON.stringify(facts))
  const script = join(import.meta.dirname, 'recompute.py')
  const actual = execFileSync('python3', ['-B', script, samples, factsFile], {
    encoding: 'utf8',
    maxBuffer: 256 << 20,
  })
  return JSON.parse(actual) as Numbers
}

/** Relative tolerance, because floating-point sums depend on the order of their terms. */
const SAME = 1e-9

/**
 * Returns the differences between two values as texts. Compares only the fields of `computed`.
 * @param within an additional absolute tolerance for numbers
 */
export function differences(actual: unknown, computed: unknown, path = '', within = 0): string[] {
  if (typeof actual === 'number' && typeof computed === 'number') {
    const room = SAME * Math.max(1, Math.abs(actual), Math.abs(computed)) + within
    return Math.abs(actual - computed) <= room ? [] : [`${path}: ${actual}, but ${computed}`]
  }
  if (Array.isArray(actual) && Array.isArray(computed)) {
    if (actual.length !== computed.length)
      return [`${path}: ${actual.length} items, but ${computed.length}`]
    return computed.flatMap((value, at) => differences(actual[at], value, `${path}[${at}]`, within))
  }
  if (isObject(actual) && isObject(computed)) {
    return Object.entries(computed).flatMap(([key, value]) =>
      differences(actual[key], value, path === '' ? key : `${path}.${key}`, within),
    )
  }
  return Object.is(actual, computed)
    ? []
    : [`${path}: ${JSON.stringify(actual)}, but ${JSON.stringify(computed)}`]
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
