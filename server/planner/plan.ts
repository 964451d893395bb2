import { setImmediate as turn } from 'node:timers/promises'
import {
  MAX_PLANNED_REWARDS,
  MAX_REPLAYED_SAMPLES,
  NO_GAIN_SHARE,
  type PlannedColumn,
  type PlannedPicture,
  type PlannedStrategy,
  type PlannerDto,
  type PlannerInput,
} from '../contract/planner.ts'
import type { Phases, Strategy } from '../contract/strategies.ts'
import { boundOf, predict, STRATEGIES, type StepRewards, type Workload } from './overlap.ts'

/** The chart covers the time that the barrier strategy takes for this many steps. */
const DRAWN_STEPS = 2
const DRAWN_INTERVALS = 160

export type Plan = PlanSize & { phases: Phases }
export type PlanSize = Omit<PlannerInput, 'source' | 'phases' | 'limits'> &
  Required<Pick<PlannerInput, 'limits'>>

/** Returns why a plan is too large to be replayed, or null if it is not too large. */
export function tooLarge(plan: PlanSize, samplesOfStep: number): string | null {
  const rewards = plan.steps * samplesOfStep
  if (rewards > MAX_PLANNED_REWARDS) {
    return `${plan.steps} steps of ${count(samplesOfStep)} samples are ${count(rewards)} rewards; at most ${count(MAX_PLANNED_REWARDS)} are replayed.`
  }
  const replayed = rewards * plan.limits.length * plan.servers.length * STRATEGIES.length
  if (replayed > MAX_REPLAYED_SAMPLES) {
    return `${count(rewards)} rewards under ${plan.limits.length * plan.servers.length} limits and ${STRATEGIES.length} strategies are ${count(replayed)}; at most ${count(MAX_REPLAYED_SAMPLES)} are replayed.`
  }
  return null
}

/**
 * Predicts every strategy under every limit. The function yields to the event loop between predictions, because the
 * largest one takes about 40 ms.
 * @throws the signal's reason once it is aborted
 */
export async function planSteps(
  plan: Plan,
  steps: readonly StepRewards[],
  signal?: AbortSignal,
): Promise<Pick<PlannerDto, 'columns' | 'shown'>> {
  const columns: PlannedColumn[] = []
  const workOf = (limit: number | null, servers: number): Workload => ({
    phases: plan.phases,
    steps,
    miniBatches: plan.miniBatches,
    concurrency: limit === null ? null : limit * servers,
  })
  for (const servers of plan.servers) {
    for (const limit of plan.limits) {
      const work = workOf(limit, servers)
      const strategies: PlannedStrategy[] = []
      for (const strategy of STRATEGIES) {
        await turn()
        signal?.throwIfAborted()
        const { stepMs, steadyMs, waitMs } = predict(work, strategy)
        const barrierMs = strategies[0]?.stepMs ?? stepMs
        const saving = barrierMs > 0 ? 1 - stepMs / barrierMs : 0
        strategies.push({ strategy, stepMs, steadyMs, waitMs, saving })
      }
      columns.push({
        limit,
        servers,
        slots: work.concurrency,
        ...boundOf(work),
        strategies,
        ...verdictOf(strategies),
      })
    }
  }
  const isPlanned =
    plan.show && plan.limits.includes(plan.show.limit) && plan.servers.includes(plan.show.servers)
  const show = (isPlanned && plan.show) || {
    limit: plan.limits[0] as number | null,
    servers: plan.servers[0] as number,
  }
  return { columns, shown: { ...show, ...(await draw(workOf(show.limit, show.servers), signal)) } }
}

/** Picks the simplest strategy whose step exceeds the shortest step by less than 1 % of the barrier strategy's step. */
function verdictOf(strategies: readonly PlannedStrategy[]): { best: Strategy; noGain: boolean } {
  const most = Math.max(...strategies.map(({ saving }) => saving))
  const noGain = most < NO_GAIN_SHARE
  // STRATEGIES is ordered by the demands on the trainer, simplest first.
  const best = strategies.find(({ saving }) => saving > most - NO_GAIN_SHARE)
  return { best: noGain ? 'barrier' : (best?.strategy ?? 'barrier'), noGain }
}

async function draw(
  work: Workload,
  signal?: AbortSignal,
): Promise<{ untilMs: number; pictures: PlannedPicture[] }> {
  const barrier = predict(work, 'barrier')
  const untilMs = barrier.endsMs[Math.min(DRAWN_STEPS, barrier.endsMs.length) - 1] ?? 0
  const pictures: PlannedPicture[] = []
  for (const strategy of STRATEGIES) {
    await turn()
    signal?.throwIfAborted()
    const inFlight = new InFlight(untilMs, DRAWN_INTERVALS)
    const { spans } = predict(work, strategy, (_, fromMs, toMs) => inFlight.add(fromMs, toMs))
    pictures.push({
      strategy,
      spans: spans.filter(({ fromMs }) => fromMs < untilMs),
      inFlight: untilMs > 0 ? inFlight.means() : [],
    })
  }
  return { untilMs, pictures }
}

function count(n: number): string {
  return n.toLocaleString('en-US')
}

export class InFlight {
  readonly #untilMs: number
  readonly #intervalMs: number
  /**
   * For each interval, the time in flight, ms, of rewards that cover only part of the interval. Intervals that a reward
   * covers completely are counted in `#change`: +1 at the first one, −1 after the last one.
   */
  readonly #partMs: Float64Array
  readonly #change: Int32Array

  /** @param untilMs later times are not counted */
  constructor(untilMs: number, intervals: number) {
    this.#untilMs = untilMs
    this.#intervalMs = untilMs / intervals
    this.#partMs = new Float64Array(intervals)
    this.#change = new Int32Array(intervals + 1)
  }

  add(fromMs: number, toMs: number): void {
    const end = Math.min(toMs, this.#untilMs)
    if (!(end > fromMs)) return
    const first = Math.floor(fromMs / this.#intervalMs)
    const last = Math.min(this.#partMs.length - 1, Math.floor(end / this.#intervalMs))
    const parts = this.#partMs
    if (first >= last) {
      parts[last] = (parts[last] as number) + end - fromMs
      return
    }
    parts[first] = (parts[first] as number) + (first + 1) * this.#intervalMs - fromMs
    parts[last] = (parts[last] as number) + end - last * this.#intervalMs
    this.#change[first + 1] = (this.#change[first + 1] as number) + 1
    this.#change[last] = (this.#change[last] as number) - 1
  }

  means(): number[] {
    let whole = 0
    return Array.from(this.#partMs, (part, i) => {
      whole += this.#change[i] as number
      return Math.round((whole + part / this.#intervalMs) * 10) / 10
    })
  }
}
