import { existsSync } from 'node:fs'
import { rm as removeFolder } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import {
  type AccountOptions,
  type BatchCpu,
  bodyOf,
  inTurn,
  type Rms,
  registerRms,
  type Side,
  scoreBatch,
  startRms,
  urlOf,
  type Workload,
  watchBatch,
  withSides,
} from './account-batches.ts'
import { applicationNames, type CpuTimes, totalUs } from './account-cpu.ts'
import { Profilers } from './account-profiles.ts'
import { stagesOfProfile, stagesOfStatements, type ThreadKind } from './account-stages.ts'
import { logStatementCpu, StatementLog } from './account-statements.ts'
import {
  added,
  averageTimes,
  type DifferenceRow,
  differenceTable,
  type StageRow,
  type StageShares,
  stageRows,
  stagesTable,
} from './account-table.ts'
import { benchFolder, type Emit, type OpenService, openService } from './harness.ts'
import { median, pairedDifference, rounded } from './statistics.ts'
import { USUAL_SHAPE } from './texts.ts'

/** Default options. Without `--against`, `pairsAlone` replaces `pairs`. */
export const ACCOUNT_DEFAULTS = {
  samples: USUAL_SHAPE.samples,
  batches: 2,
  warmUpBatches: 3,
  pairs: 10,
  pairsAlone: 3,
  boundPercent: 3,
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/**
 * Measures the CPU time of whole batches by process and stage, or the difference from the checkout `against` if given.
 * @throws on systems other than Linux, and when `against` is not a checkout
 */
export async function measureAccount(emit: Emit, options: AccountOptions): Promise<void> {
  if (process.platform !== 'linux')
    throw new Error('This benchmark reads CPU time from /proc, which only Linux has.')
  const against = options.against === undefined ? undefined : resolve(options.against)
  if (against !== undefined && !existsSync(join(against, 'server/main.ts'))) {
    throw new Error(`--against: there is no server/main.ts in ${against}`)
  }
  const rms = await startRms()
  try {
    if (against === undefined) await alone(emit, options, rms)
    else await compare(emit, options, rms, against)
  } finally {
    await Promise.all(Object.values(rms).map((rm) => rm.stop()))
  }
}

/** Measures exact totals without profilers, then the shares of the stages with profilers. */
async function alone(emit: Emit, options: AccountOptions, rms: Rms): Promise<void> {
  const measured: BatchCpu[] = []
  for (let pair = 0; pair < options.pairs; pair++) {
    await withSides([{ root: ROOT, env: {} }], rms, async ([side]) => {
      for (const workload of options.workloads) {
        await inTurn([side as Side], workload, options, pair, (_, batch) => measured.push(batch))
      }
    })
  }
  const shares = await measureStages(options, rms)
  for (const workload of options.workloads) {
    const batches = measured.filter((batch) => batch.workload === workload)
    const times = averageTimes(
      batches.map((b) => b.times),
      options.samples,
    )
    const stages = shares.get(workload) as StageShares
    emit({
      name: 'account.totals',
      workload,
      samples: options.samples,
      batches: batches.length,
      cpuUsASample: rounded(totalUs(times), 1),
      runs: batches.map((b) => rounded(totalUs(b.times) / options.samples, 1)),
      server: roundedParts(times.server),
      workers: roundedParts(times.workers),
      postgres: roundedParts(times.postgres),
      afterUsASample: rounded(median(batches.map((b) => totalUs(b.after))) / options.samples, 1),
      wallMs: rounded(median(batches.map((b) => b.wallMs))),
    })
    const rows = stageRows(times, stages)
    for (const row of rows) emit({ name: 'account.stage', workload, ...roundedNumbers(row) })
    emit({ name: 'account.unattributed', workload, ...stages.unattributed })
    console.error(`\n${workload}: CPU time per sample, µs\n${stagesTable(rows)}\n`)
  }
}

async function compare(
  emit: Emit,
  options: AccountOptions,
  rms: Rms,
  against: string,
): Promise<void> {
  const pairs: { ours: BatchCpu[]; theirs: BatchCpu[] }[] = []
  for (let pair = 0; pair < options.pairs; pair++) {
    const found: (typeof pairs)[number] = { ours: [], theirs: [] }
    const checkouts = [
      { root: ROOT, env: options.env },
      { root: against, env: {} },
    ]
    await withSides(checkouts, rms, async (sides) => {
      for (const workload of options.workloads) {
        await inTurn(sides, workload, options, pair, (side, batch) =>
          (side === 0 ? found.ours : found.theirs).push(batch),
        )
      }
    })
    pairs.push(found)
    emit({
      name: 'account.pair',
      pair,
      loadAverage: rounded(loadavg()[0] as number, 1),
      ...pairSummary(found, options),
    })
    // The table is printed after each pair, because a run may be stopped early.
    const table = differenceTable(differences(pairs, options))
    console.error(`\nCPU time per sample after ${pairs.length} pairs\n${table}\n`)
  }
  for (const row of differences(pairs, options)) emit({ name: 'account.difference', ...row })
}

function pairSummary(
  pair: { ours: BatchCpu[]; theirs: BatchCpu[] },
  options: AccountOptions,
): Record<string, unknown> {
  return Object.fromEntries(
    options.workloads.map((workload) => [
      workload,
      {
        oursUsASample: rounded(usASample(pair.ours, workload, undefined, options.samples), 1),
        theirsUsASample: rounded(usASample(pair.theirs, workload, undefined, options.samples), 1),
        oursWallMs: wallMs(pair.ours, workload),
        theirsWallMs: wallMs(pair.theirs, workload),
      },
    ]),
  )
}

function wallMs(batches: readonly BatchCpu[], workload: Workload): number {
  return rounded(median(batches.filter((b) => b.workload === workload).map((b) => b.wallMs)))
}

function differences(
  pairs: readonly { ours: BatchCpu[]; theirs: BatchCpu[] }[],
  options: AccountOptions,
): DifferenceRow[] {
  const processes = [undefined, 'server', 'workers', 'postgres'] as const
  const rows: DifferenceRow[] = []
  for (const workload of [...options.workloads, undefined]) {
    for (const process of processes) {
      const measured = pairs.map(({ ours, theirs }) => ({
        ours: usASample(ours, workload, process, options.samples),
        theirs: usASample(theirs, workload, process, options.samples),
      }))
      const { medianPercent, lowPercent, highPercent } = pairedDifference(measured)
      const percent = (value: number | null) => (value === null ? null : rounded(value, 2))
      rows.push({
        workload: workload ?? 'all',
        process: process ?? 'all',
        pairs: measured.length,
        oursUsASample: rounded(median(measured.map((m) => m.ours)), 1),
        theirsUsASample: rounded(median(measured.map((m) => m.theirs)), 1),
        medianPercent: rounded(medianPercent, 2),
        lowPercent: percent(lowPercent),
        highPercent: percent(highPercent),
        boundPercent: options.boundPercent,
        isBelowBound: highPercent === null ? null : highPercent < options.boundPercent,
      })
    }
  }
  return rows
}

/** Mean CPU time per sample over the batches of a workload, or the sum of these means over all workloads. */
function usASample(
  batches: readonly BatchCpu[],
  workload: Workload | undefined,
  process: keyof CpuTimes | undefined,
  samples: number,
): number {
  const ofOne = (name: Workload) => {
    const own = batches.filter((batch) => batch.workload === name)
    return own.reduce((sum, b) => sum + totalUs(b.times, process), 0) / own.length / samples
  }
  if (workload !== undefined) return ofOne(workload)
  return [...new Set(batches.map((b) => b.workload))].reduce((sum, name) => sum + ofOne(name), 0)
}

/** Repeats the batches with every Node thread profiled and the CPU time of every statement logged. */
async function measureStages(
  options: AccountOptions,
  rms: Rms,
): Promise<Map<Workload, StageShares>> {
  const folder = await benchFolder()
  const dataDir = join(folder, 'data')
  const profilers = await Profilers.listen(join(folder, 'profilers.sock'))
  const found = new Map<Workload, StageShares>()
  let opened: OpenService | undefined
  try {
    const env = { REWARDOPS_PAGES: '0' }
    opened = await openService({ dataDir, env })
    await registerRms(opened, rms)
    // Role settings apply to new connections; after a restart, all connections are new.
    await logStatementCpu(urlOf({ opened, dataDir }))
    await opened.close()
    opened = await openService({ dataDir, env: { ...env, ...profilers.env } })
    for (const workload of options.workloads) {
      const shares: StageShares = {
        server: {},
        ingest: {},
        workers: {},
        postgres: {},
        backendsUs: 0,
      }
      const names = { files: new Map<string, number>(), statements: new Map<string, number>() }
      for (let i = 0; i < options.warmUpBatches + options.batches; i++) {
        const body = bodyOf(workload, options, i)
        if (i < options.warmUpBatches) await scoreBatch(opened, body)
        else await profileBatch({ opened, dataDir }, profilers, body, shares, names)
      }
      shares.unattributed = {
        files: largest(names.files),
        statements: largest(names.statements),
      }
      found.set(workload, shares)
    }
    return found
  } finally {
    await opened?.close()
    profilers.close()
    await removeFolder(folder, { recursive: true, force: true })
  }
}

async function profileBatch(
  side: Side,
  profilers: Profilers,
  body: Buffer,
  shares: StageShares,
  names: { files: Map<string, number>; statements: Map<string, number> },
): Promise<void> {
  await profilers.start()
  const log = new StatementLog(side.dataDir)
  const { pids, watch } = await watchBatch(side, body)
  const profiles = await profilers.stop()
  const statements = stagesOfStatements(await log.stop())
  const times = watch.times(await applicationNames(urlOf(side)))
  for (const { pid, isMainThread, profile } of profiles) {
    const ofServer: ThreadKind = isMainThread ? 'server' : 'ingest'
    const kind = pid === pids.server ? ofServer : 'workers'
    const stages = stagesOfProfile(profile, kind, pathToFileURL(ROOT).href)
    added(shares[kind], stages.us)
    for (const [file, us] of stages.files) names.files.set(file, (names.files.get(file) ?? 0) + us)
  }
  added(shares.postgres, statements.us)
  for (const [text, us] of statements.statements) {
    names.statements.set(text, (names.statements.get(text) ?? 0) + us)
  }
  for (const [part, us] of Object.entries(times.postgres)) {
    if (part.startsWith('backends')) shares.backendsUs += us
  }
}

function largest(entries: ReadonlyMap<string, number>): Record<string, number> {
  const sum = [...entries.values()].reduce((a, b) => a + b, 0)
  const sorted = [...entries].sort(([, a], [, b]) => b - a).slice(0, 5)
  return Object.fromEntries(sorted.map(([name, us]) => [name, rounded(us / sum, 3)]))
}

function roundedNumbers(row: StageRow): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([key, value]) => [
      key,
      typeof value === 'number' ? rounded(value, 1) : value,
    ]),
  )
}

function roundedParts(parts: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(parts)
      .map(([part, us]): [string, number] => [part, rounded(us, 1)])
      .filter(([, us]) => us > 0),
  )
}
