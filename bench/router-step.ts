import { setTimeout as sleep } from 'node:timers/promises'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import type { ControlChangeInput } from '../testkit/simulated-rm/options.ts'
import { logitOf, textId } from '../testkit/simulated-rm/text.ts'
import type { Emit } from './harness.ts'
import { BASELINES } from './router-step-baselines.ts'
import type { Dispatcher } from './router-step-dispatcher.ts'
import { ours } from './router-step-ours.ts'
import { CHARS_PER_TOKEN, makeStep, type Step } from './router-step-samples.ts'
import { type Cell, notBetter, tableOf } from './router-step-table.ts'
import { rounded } from './statistics.ts'

export interface RouterStepOptions {
  groups: number
  servers: number
  /** Least possible time of the step with healthy servers; determines the servers' speed. */
  seconds: number
  /** Number of concurrent samples at which a server reaches its full speed. */
  saturation: number
  seed: number
  /** Names of the scenarios and of the dispatchers to run. An empty list means all. */
  scenarios: readonly string[]
  dispatchers: readonly string[]
}

/** 1,024 samples on eight servers, in six seconds at best. */
export const ROUTER_STEP_DEFAULTS: RouterStepOptions = {
  groups: 128,
  servers: 8,
  seconds: 6,
  saturation: 8,
  seed: 1,
  scenarios: [],
  dispatchers: [],
}

const SAMPLES_PER_GROUP = 8
const MODEL_TOKENS = 4096
/** Maximum number of samples in progress per server; further samples wait inside the server. */
const MAX_RUNNING = 64
const PREFIX_GROUPS = 64
const WEIGHTS = 1
/** Time limit as a multiple of the lower bound. Samples that are unfinished at the limit count as failed. */
const CAP_BOUNDS = 6
const HANG_FROM_SAMPLE = 20
const DIE_AT_SHARE = 0.4
const SLOW_SPEED = 0.35

/** A change to the first server (null for none), and the least possible time of the step, ms. */
interface Scenario {
  name: string
  change(boundMs: number): ControlChangeInput | null
  boundMs(step: Step, servers: number, tokensPerMs: number): number
}

const SCENARIOS: readonly Scenario[] = [
  {
    name: 'healthy',
    change: () => null,
    boundMs: ({ workTokens }, servers, rate) => workTokens / (servers * rate),
  },
  {
    name: 'slow',
    change: () => ({ speed: SLOW_SPEED }),
    boundMs: ({ workTokens }, servers, rate) => workTokens / ((servers - 1 + SLOW_SPEED) * rate),
  },
  {
    name: 'hang',
    change: () => ({ hangAfterTexts: HANG_FROM_SAMPLE }),
    // At best, the server has processed the largest samples before it hangs.
    boundMs({ samples, workTokens }, servers, rate) {
      const largest = samples.map((sample) => sample.tokens).sort((a, b) => b - a)
      const done = largest.slice(0, HANG_FROM_SAMPLE - 1).reduce((sum, tokens) => sum + tokens, 0)
      return Math.max(workTokens / (servers * rate), (workTokens - done) / ((servers - 1) * rate))
    },
  },
  {
    name: 'die',
    change: (boundMs) => ({ die: { afterMs: DIE_AT_SHARE * boundMs } }),
    boundMs({ workTokens }, servers, rate) {
      const healthyMs = workTokens / (servers * rate)
      const left = workTokens * (1 - DIE_AT_SHARE)
      return DIE_AT_SHARE * healthyMs + left / ((servers - 1) * rate)
    },
  },
  {
    name: 'fail_fast',
    change: () => ({ faults: { error500: { share: 1, delayMs: 1 } } }),
    boundMs: ({ workTokens }, servers, rate) => workTokens / ((servers - 1) * rate),
  },
]

export async function measureRouterStep(
  emit: Emit,
  options: RouterStepOptions = ROUTER_STEP_DEFAULTS,
): Promise<void> {
  const step = makeStep({
    groups: options.groups,
    samplesPerGroup: SAMPLES_PER_GROUP,
    modelTokens: MODEL_TOKENS,
    seed: options.seed,
  })
  const tokensPerSecond = step.workTokens / (options.servers * options.seconds)
  const healthyMs = options.seconds * 1000
  const longestMs = (step.longestTokens / (tokensPerSecond / options.saturation)) * 1000
  emit({
    name: 'router.step',
    samples: step.samples.length,
    groups: step.groups,
    servers: options.servers,
    seed: options.seed,
    lengths: step.lengths,
    workTokens: step.workTokens,
    tokensPerSecond: rounded(tokensPerSecond),
    saturation: options.saturation,
    running: MAX_RUNNING,
    boundWorkMs: rounded(healthyMs),
    boundLongestSampleMs: rounded(longestMs),
  })
  const scenarios = chosen(SCENARIOS, options.scenarios)
  const dispatchers = chosen([ours, ...BASELINES], options.dispatchers)
  const cells: Cell[] = []
  for (const scenario of scenarios) {
    const workMs = scenario.boundMs(step, options.servers, tokensPerSecond / 1000)
    const boundMs = Math.max(workMs, longestMs)
    for (const dispatcher of dispatchers) {
      const servers = await startSimulatedServers(serverArgs(options, tokensPerSecond))
      try {
        const change = scenario.change(healthyMs)
        const cell = await runCell(step, servers, dispatcher, change, CAP_BOUNDS * boundMs)
        cells.push({ scenario: scenario.name, dispatcher: dispatcher.name, boundMs, ...cell })
      } finally {
        await servers.stop()
      }
      emit({ name: 'router.step.cell', ...printedCell(cells, cells.at(-1) as Cell) })
    }
  }
  console.error(tableOf(cells))
  emit({ name: 'router.step.not_better', cases: notBetter(cells) })
}

function serverArgs(options: RouterStepOptions, tokensPerSecond: number): string[] {
  const args: Record<string, number> = {
    servers: options.servers,
    'tokens-per-second': tokensPerSecond,
    saturation: options.saturation,
    running: MAX_RUNNING,
    'prefix-groups': PREFIX_GROUPS,
    'max-model-len': MODEL_TOKENS,
    'chars-per-token': CHARS_PER_TOKEN,
    weights: WEIGHTS,
    seed: options.seed,
  }
  return Object.entries(args).flatMap(([name, value]) => [`--${name}`, String(value)])
}

async function runCell(
  step: Step,
  servers: SimulatedServers,
  dispatcher: Dispatcher,
  change: ControlChangeInput | null,
  capMs: number,
): Promise<Omit<Cell, 'scenario' | 'dispatcher' | 'boundMs'>> {
  const leftInGroup = Array.from({ length: step.groups }, () => SAMPLES_PER_GROUP)
  const groupMs: number[] = []
  const open = new Set(step.samples.map((sample) => sample.index))
  let failed = 0
  let wrong = 0
  let lastMs = 0
  if (change !== null) await servers.control(change, 0)
  const cap = new AbortController()
  const timer = setTimeout(() => cap.abort(), capMs)
  const startedAt = performance.now()
  const run = dispatcher.run({
    servers: servers.urls.map((url, i) => ({ id: i + 1, url, model: servers.model })),
    samples: step.samples,
    signal: cap.signal,
    ended(sample, score) {
      if (cap.signal.aborted || !open.delete(sample.index)) return
      lastMs = performance.now() - startedAt
      if (score === null) {
        failed += 1
        return
      }
      if (score !== logitOf(textId(sample.prompt, sample.response), WEIGHTS)) wrong += 1
      const left = (leftInGroup[sample.group] ?? 0) - 1
      leftInGroup[sample.group] = left
      if (left === 0) groupMs.push(lastMs)
    },
  })
  // The step ends at the time limit, even if the dispatcher does not return.
  await Promise.race([run, new Promise((resolve) => cap.signal.addEventListener('abort', resolve))])
  clearTimeout(timer)
  const capped = open.size > 0
  const stats = await servers.stats()
  const sent = stats.reduce((sum, server) => sum + server.textsTotal, 0)
  await Promise.race([run, sleep(5000, undefined, { ref: false })])
  return {
    capped,
    makespanMs: capped ? capMs : lastMs,
    halfGroupsMs: groupMs[Math.ceil(step.groups / 2) - 1] ?? null,
    failed: failed + open.size,
    wrong,
    extraRequests: sent - step.samples.length,
  }
}

function printedCell(cells: readonly Cell[], cell: Cell): Record<string, unknown> {
  const healthy = cells.find((c) => c.scenario === 'healthy' && c.dispatcher === ours.name)
  return {
    ...cell,
    boundMs: rounded(cell.boundMs),
    makespanMs: rounded(cell.makespanMs),
    halfGroupsMs: cell.halfGroupsMs === null ? null : rounded(cell.halfGroupsMs),
    makespanToBound: rounded(cell.makespanMs / cell.boundMs, 2),
    makespanToOursHealthy: healthy ? rounded(cell.makespanMs / healthy.makespanMs, 2) : null,
    halfGroupsToBound:
      cell.halfGroupsMs === null ? null : rounded(cell.halfGroupsMs / cell.boundMs, 2),
  }
}

function chosen<T extends { name: string }>(all: readonly T[], names: readonly string[]): T[] {
  const unknown = names.filter((name) => !all.some((one) => one.name === name))
  if (unknown.length > 0) {
    const known = all.map((one) => one.name).join(', ')
    throw new Error(`unknown: ${unknown.join(', ')}; known: ${known}`)
  }
  return all.filter((one) => names.length === 0 || names.includes(one.name))
}
