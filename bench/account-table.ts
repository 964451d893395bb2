import { type CpuTimes, NOT_COUNTED } from './account-cpu.ts'
import { STAGES, type Stage, type ThreadKind } from './account-stages.ts'
import { rounded } from './statistics.ts'

type StageTimes = Partial<Record<Stage, number>>

/** Profiled CPU time by stage; only its proportions are used. */
export interface StageShares extends Record<ThreadKind | 'postgres', StageTimes> {
  /** CPU time of all Postgres backends. Unlike `postgres`, it includes the time outside statements. */
  backendsUs: number
  /** The files and statements with the largest shares of the time in `other` and `upkeep`. */
  unattributed?: { files: Record<string, number>; statements: Record<string, number> }
}

/** One stage's CPU time in µs per sample. */
export interface StageRow {
  stage: string
  server: number
  ingest: number
  workers: number
  postgres: number
  total: number
}

export function added(to: StageTimes, more: StageTimes): void {
  for (const [stage, us] of Object.entries(more) as [Stage, number][])
    to[stage] = (to[stage] ?? 0) + us
}

/** The mean CPU time per sample over several batches, µs. */
export function averageTimes(batches: readonly CpuTimes[], samples: number): CpuTimes {
  const mean: CpuTimes = { server: {}, workers: {}, postgres: {} }
  for (const process of ['server', 'workers', 'postgres'] as const) {
    const parts = mean[process]
    for (const batch of batches) {
      for (const [part, us] of Object.entries(batch[process])) {
        parts[part] = (parts[part] ?? 0) + us / batches.length / samples
      }
    }
  }
  return mean
}

/** Splits exact CPU times per sample by stage, in the profiled proportions. The rows add up to the total. */
export function stageRows(times: CpuTimes, shares: StageShares): StageRow[] {
  const { server, workers, postgres } = times
  const exact: Record<ThreadKind, number> = {
    server: server['main thread'] ?? 0,
    ingest: server['worker threads'] ?? 0,
    workers: (workers['main thread'] ?? 0) + (workers['worker threads'] ?? 0),
  }
  const rows = new Map<string, StageRow>()
  const add = (stage: string, column: ThreadKind | 'postgres', us: number) => {
    const row = rows.get(stage) ?? {
      stage,
      server: 0,
      ingest: 0,
      workers: 0,
      postgres: 0,
      total: 0,
    }
    row[column] += us
    row.total += us
    rows.set(stage, row)
  }
  for (const kind of ['server', 'ingest', 'workers'] as const) {
    const sum = Object.values(shares[kind]).reduce((a, b) => a + b, 0)
    if (sum === 0) add('other', kind, exact[kind])
    else
      for (const stage of STAGES) add(stage, kind, ((shares[kind][stage] ?? 0) / sum) * exact[kind])
  }

  const backends = sumOf(postgres, (part) => part.startsWith('backends'))
  const inStatements = Object.values(shares.postgres).reduce((a, b) => a + b, 0)
  const profiled = Math.max(shares.backendsUs, inStatements)
  if (profiled > 0) {
    for (const stage of STAGES) {
      add(stage, 'postgres', ((shares.postgres[stage] ?? 0) / profiled) * backends)
    }
    add('outside statements', 'postgres', ((profiled - inStatements) / profiled) * backends)
  } else add('other', 'postgres', backends)
  add(
    'Postgres background processes',
    'postgres',
    sumOf(postgres, (part) => !part.startsWith('backends') && !NOT_COUNTED.has(part)),
  )
  const isHelper = (part: string) => part !== 'main thread' && part !== 'worker threads'
  add('GC and JIT helpers', 'server', sumOf(server, isHelper))
  add('GC and JIT helpers', 'workers', sumOf(workers, isHelper))
  return [...rows.values()].filter((row) => row.total >= 0.05)
}

function sumOf(parts: Record<string, number>, isCounted: (part: string) => boolean): number {
  return Object.entries(parts).reduce((sum, [part, us]) => (isCounted(part) ? sum + us : sum), 0)
}

const COLUMNS = ['server', 'ingest', 'workers', 'postgres', 'total'] as const

export function stagesTable(rows: readonly StageRow[]): string {
  const total: StageRow = {
    stage: 'total',
    server: 0,
    ingest: 0,
    workers: 0,
    postgres: 0,
    total: 0,
  }
  for (const row of rows) for (const column of COLUMNS) total[column] += row[column]
  return aligned([
    ['stage', ...COLUMNS],
    ...[...rows, total].map((row) => [
      row.stage,
      ...COLUMNS.map((column) => (row[column] < 0.05 ? '–' : rounded(row[column], 1).toFixed(1))),
    ]),
  ])
}

export interface DifferenceRow {
  workload: string
  process: string
  pairs: number
  oursUsASample: number
  theirsUsASample: number
  medianPercent: number
  lowPercent: number | null
  highPercent: number | null
  boundPercent: number
  isBelowBound: boolean | null
}

export function differenceTable(rows: readonly DifferenceRow[]): string {
  const percent = (value: number | null) =>
    value === null ? '–' : `${value > 0 ? '+' : ''}${value.toFixed(2)}`
  return aligned([
    ['workload', 'process', 'µs ours', 'theirs', 'median %', '95 % from', 'to', 'below bound'],
    ...rows.map((row) => [
      row.workload,
      row.process,
      row.oursUsASample.toFixed(1),
      row.theirsUsASample.toFixed(1),
      percent(row.medianPercent),
      percent(row.lowPercent),
      percent(row.highPercent),
      row.isBelowBound === null
        ? '–'
        : `${row.isBelowBound ? 'yes' : 'no'} (${row.boundPercent} %)`,
    ]),
  ])
}

function aligned(lines: readonly string[][]): string {
  const widths = lines[0]!.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] as string).length)),
  )
  return lines
    .map((line) =>
      line
        .map((text, column) =>
          Number.isNaN(Number.parseFloat(lines[1]?.[column] ?? '')) && lines[1]?.[column] !== '–'
            ? text.padEnd(widths[column] as number)
            : text.padStart(widths[column] as number),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
