import type { Attention, OverviewDto, OverviewRunDto, WorkerDto } from '../contract/pages.ts'
import type { ServerDto } from '../contract/servers.ts'
import { Memo } from '../memo.ts'
import { labelOf, shareText, valueText } from '../monitoring/alerts/alert-payload.ts'
import type { Database } from '../store/database.ts'
import { overviewFigures } from '../store/sql/fleet.ts'
import {
  type IncidentRow,
  incidentsOfLate,
  type LateIncidentRow,
} from '../store/sql/monitor-views.ts'
import type { BatchViews } from './batch-view.ts'
import type { FleetView } from './fleet-view.ts'
import type { RunTable } from './run-table.ts'

const ACTIVE_SHOWN = 20
const MAX_NAMED_RUNS = 3
/**
 * Number of incidents per monitor that suffices to name {@link MAX_NAMED_RUNS} runs: a run has at most two, one per
 * split.
 */
const NAMED_INCIDENTS = 2 * MAX_NAMED_RUNS
const MAX_RUNS_SHOWN = 6
const CURVE_STEPS = 50
/** The list of runs is cached for this time, because listing runs reads the roll-ups of all runs. */
const RUNS_KEPT_MS = 2_000
const GONE: ReadonlySet<string> = new Set(['unreachable', 'dead'])

export class OverviewView {
  readonly #db: Database
  readonly #fleet: FleetView
  readonly #batches: BatchViews
  readonly #runTable: RunTable
  readonly #memo = new Memo<OverviewDto>(400)
  readonly #runs = new Memo<OverviewRunDto[]>(RUNS_KEPT_MS)
  readonly #wantedWorkers: number

  constructor(
    db: Database,
    fleet: FleetView,
    batches: BatchViews,
    runTable: RunTable,
    wantedWorkers: number,
  ) {
    this.#runTable = runTable
    this.#db = db
    this.#fleet = fleet
    this.#batches = batches
    this.#wantedWorkers = wantedWorkers
  }

  get(): Promise<OverviewDto> {
    return this.#memo.get('', () => this.#compute())
  }

  async #compute(): Promise<OverviewDto> {
    const [figures, servers, workers, active, incidents, runs] = await Promise.all([
      overviewFigures(this.#db),
      this.#fleet.servers(),
      this.#fleet.workers(),
      this.#batches.active(ACTIVE_SHOWN),
      incidentsOfLate(this.#db, NAMED_INCIDENTS),
      this.#runs.get('', () => this.#runTable.latest(MAX_RUNS_SHOWN, CURVE_STEPS)),
    ])
    const alive = workers.filter((w) => w.state === 'alive')
    return {
      empty: !figures.any_batch,
      runs,
      attention: [
        ...attentionOf(servers, workers, alive.length, this.#wantedWorkers, figures),
        ...monitorAttention(incidents),
      ],
      figures: {
        samplesPerSecond: sum(alive.map((w) => w.samplesPerSecond)),
        samplesPerSecondHistory: addHistories(alive.map((w) => w.samplesPerSecondHistory)),
        inFlight: sum(alive.map((w) => w.inFlight)),
        queued: figures.queued,
        activeBatches: figures.active,
        failedLastHour: figures.failed_hour,
        scoredLastHour: figures.scored_hour,
        validationLastHour: figures.val_hour,
        rescoredLastHour: figures.rescored_hour,
        workersAlive: alive.length,
        serversReady: servers.filter((s) => s.state === 'ready').length,
        serversTotal: servers.length,
      },
      servers,
      workers,
      activeBatches: active,
    }
  }
}

function attentionOf(
  servers: ServerDto[],
  workers: WorkerDto[],
  alive: number,
  wanted: number,
  figures: { queued: number; failed_hour: number; scored_hour: number },
): Attention[] {
  const out: Attention[] = []
  if (alive === 0 && (wanted > 0 || figures.queued > 0)) {
    out.push({
      level: 'error',
      title: 'No worker is alive',
      detail: `Queued samples: ${figures.queued}. Start a worker with npm run worker, or set REWARDOPS_WORKERS.`,
      href: '/workers',
    })
  }
  for (const server of servers.filter((s) => GONE.has(s.state))) {
    out.push({
      level: 'error',
      title: `${server.name} is ${server.state}`,
      detail: server.stateCause ?? 'The server does not respond to probes.',
      href: '/servers',
    })
  }
  for (const server of servers.filter((s) => s.state === 'quarantined')) {
    out.push({
      level: 'error',
      title: `${server.name} is quarantined`,
      detail: server.stateCause ?? server.selfTest?.detail ?? 'The self-test failed.',
      href: '/servers',
    })
  }
  const requeued = workers.filter((w) => w.state === 'dead' && w.requeued > 0)
  if (requeued.length > 0) {
    out.push({
      level: 'warning',
      title: `${requeued.length === 1 ? 'A worker' : `${requeued.length} workers`} died while scoring`,
      detail: `Samples requeued to other workers: ${sum(requeued.map((w) => w.requeued))}. None were lost.`,
      href: '/workers',
    })
  }
  const ended = figures.failed_hour + figures.scored_hour
  if (figures.failed_hour > 0 && figures.failed_hour / ended > 0.01) {
    out.push({
      level: 'warning',
      title: `${shareText(figures.failed_hour / ended)} of samples failed in the last hour`,
      detail: `${figures.failed_hour} of ${ended} samples have no score. Each sample shows its failure reason.`,
      href: '/samples?status=failed',
    })
  }
  return out
}

/**
 * Open incidents of runs, one item for each monitor. Incidents of the fleet are left out, because the servers
 * themselves are listed.
 */
export function monitorAttention(incidents: readonly LateIncidentRow[]): Attention[] {
  return [...Map.groupBy(incidents, ({ monitor }) => monitor)].map(([monitor, some]): Attention => {
    const label = labelOf(monitor)
    const runs = [...Map.groupBy(some, ({ run }) => run ?? '')]
    const { runs: count, splits, isAlerting } = some[0]!
    const level = isAlerting ? 'error' : 'warning'
    const [first] = runs
    if (first !== undefined && count === 1) {
      const [run, own] = first
      const split = splits.includes('train') ? '' : '?split=val'
      return {
        ...{ level, title: `${run}: ${label.toLowerCase()}`, splits },
        detail: own
          .map(
            (incident) =>
              (own.length === 1 ? '' : `${SPLIT[incident.split ?? 'train']} `) +
              sinceText(incident),
          )
          .join('; '),
        href: `/runs/${encodeURIComponent(run)}${split}#monitor-${monitor}`,
      }
    }
    const named = runs.slice(0, MAX_NAMED_RUNS).map(([run]) => run)
    const more = count - named.length
    return {
      ...{ level, title: `${label} in ${count} runs`, splits, href: '/monitors' },
      detail: `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`,
    }
  })
}

const SPLIT = { train: 'training', val: 'validation' }

function sinceText({ monitor, openedStep, latest, worst, threshold }: IncidentRow): string {
  const now = valueText(monitor, latest)
  const most = valueText(monitor, worst)
  const values = now === most ? now : `${now}, at worst ${most}`
  return `since step ${openedStep}: ${values}, threshold ${valueText(monitor, threshold)}`
}

function sum(values: number[]): number {
  return values.reduce((a, b) => a + b, 0)
}

/** Adds the workers' histories, aligned at the newest second. A second without any reading is null. */
function addHistories(histories: (number | null)[][]): (number | null)[] {
  const length = Math.max(0, ...histories.map((h) => h.length))
  return Array.from({ length }, (_, i) => {
    const back = length - 1 - i
    const values = histories
      .map((h) => h[h.length - 1 - back])
      .filter((v) => v !== undefined && v !== null)
    return values.length === 0 ? null : sum(values as number[])
  })
}
