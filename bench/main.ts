import { availableParallelism, cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { ACCOUNT_DEFAULTS, measureAccount } from './account.ts'
import { WORKLOADS, type Workload } from './account-batches.ts'
import { ATTACK_DEFAULTS, measureAttack } from './attack.ts'
import { measureFirstLoad } from './first-load.ts'
import { measureGroups } from './groups.ts'
import type { Emit } from './harness.ts'
import { measureMemory } from './memory.ts'
import { measurePageLoad } from './page-load.ts'
import { measurePages, PAGES_DEFAULTS } from './pages.ts'
import { measureProxy } from './proxy.ts'
import { measureRate } from './rate.ts'
import { measureRouterStep, ROUTER_STEP_DEFAULTS } from './router-step.ts'
import { measureRules } from './rules.ts'
import { measureRuns, RUNS_DEFAULTS } from './runs.ts'
import { measureSingle } from './single.ts'
import { measureWatch, WATCH_DEFAULTS } from './watch.ts'

const MEASUREMENTS: Record<string, (emit: Emit) => Promise<void>> = {
  rate: measureRate,
  account: (emit) => measureAccount(emit, accountOptions()),
  attack: (emit) =>
    measureAttack(emit, {
      pairs: positive('pairs', ATTACK_DEFAULTS.pairs),
      level: values.level ?? ATTACK_DEFAULTS.level,
    }),
  'page-load': measurePageLoad,
  'first-load': measureFirstLoad,
  memory: measureMemory,
  single: measureSingle,
  groups: measureGroups,
  rules: measureRules,
  proxy: measureProxy,
  router: (emit) => measureRouterStep(emit, routerStepOptions()),
  watch: (emit) =>
    measureWatch(emit, {
      seconds: positive('seconds', WATCH_DEFAULTS.seconds),
      repetitions: positive('repetitions', WATCH_DEFAULTS.repetitions),
    }),
  pages: (emit) =>
    measurePages(emit, {
      samples: Number(values.samples ?? PAGES_DEFAULTS.samples),
      prompts: values.prompts === undefined ? undefined : Number(values.prompts),
      dataDir: values.data,
      repetitions: positive('repetitions', PAGES_DEFAULTS.repetitions),
    }),
  runs: (emit) =>
    measureRuns(emit, {
      dataDir: values.data,
      repetitions: positive('repetitions', RUNS_DEFAULTS.repetitions),
    }),
}

/**
 * Time limit of all benchmarks together. They take over half an hour on two cores, and half an hour more if `pages`
 * runs over 10,000,000 samples.
 */
const LIMIT_MS = 90 * 60_000

const text = { type: 'string' } as const
const { values, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    // For `router` and `watch`.
    seconds: text,
    // For `watch`, `pages` and `runs`.
    repetitions: text,
    // For `router` only.
    groups: text,
    servers: text,
    saturation: text,
    seed: text,
    scenarios: text,
    dispatchers: text,
    // For `pages` and `account`.
    samples: text,
    // For `pages` and `runs`.
    data: text,
    // For `pages` only.
    prompts: text,
    // For `attack` only.
    level: text,
    // For `account` only.
    workloads: text,
    batches: text,
    'warm-up-batches': text,
    against: text,
    env: { ...text, multiple: true },
    'bound-percent': text,
    // For `account` and `attack`.
    pairs: text,
  },
})
const unknown = names.filter((name) => !Object.hasOwn(MEASUREMENTS, name))
if (unknown.length > 0) {
  const known = Object.keys(MEASUREMENTS).join(', ')
  console.error(
    `Unknown benchmark: ${unknown.join(', ')}. Known: ${known}. Without a name, all run.`,
  )
  process.exit(2)
}

const emit: Emit = (measurement) => console.log(JSON.stringify(measurement))
emit({
  name: 'machine',
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: availableParallelism(),
  node: process.version,
  workers: Number(process.env.REWARDOPS_WORKERS || 2),
})

setTimeout(() => {
  console.error(`The benchmarks did not finish within ${LIMIT_MS / 60_000} minutes.`)
  process.exit(1)
}, LIMIT_MS).unref()

process.on('SIGINT', () => process.exit(130))
process.on('SIGTERM', () => process.exit(143))

for (const name of names.length > 0 ? names : Object.keys(MEASUREMENTS)) {
  try {
    await MEASUREMENTS[name]!(emit)
  } catch (error) {
    emit({ name, failed: (error as Error).message })
    process.exitCode = 1
  }
}

function routerStepOptions() {
  const number = (name: 'groups' | 'servers' | 'seconds' | 'saturation' | 'seed') =>
    positive(name, ROUTER_STEP_DEFAULTS[name])
  return {
    groups: number('groups'),
    servers: number('servers'),
    seconds: number('seconds'),
    saturation: number('saturation'),
    seed: number('seed'),
    scenarios: values.scenarios?.split(',') ?? [],
    dispatchers: values.dispatchers?.split(',') ?? [],
  }
}

function accountOptions() {
  const workloads = values.workloads?.split(',') ?? [...WORKLOADS]
  const unknown = workloads.filter((name) => !WORKLOADS.includes(name as Workload))
  if (unknown.length > 0) throw new Error(`--workloads: unknown workload ${unknown.join(', ')}`)
  const env = Object.fromEntries(
    (values.env ?? []).map((pair) => /^(\w+)=(.*)$/s.exec(pair)?.slice(1) ?? [pair, '']),
  )
  // If only `env` is given, this checkout is compared with itself under other settings.
  const against = values.against ?? (values.env === undefined ? undefined : '.')
  const { samples, batches, warmUpBatches, pairs, pairsAlone, boundPercent } = ACCOUNT_DEFAULTS
  return {
    workloads: workloads as Workload[],
    samples: positive('samples', samples),
    batches: positive('batches', batches),
    warmUpBatches: positive('warm-up-batches', warmUpBatches),
    against,
    env,
    pairs: positive('pairs', against === undefined ? pairsAlone : pairs),
    boundPercent: positive('bound-percent', boundPercent),
  }
}

/** The value of an option, by default `usual`. @throws when it is not a positive number */
function positive(
  name: Exclude<
    keyof typeof values,
    'data' | 'against' | 'env' | 'workloads' | 'scenarios' | 'dispatchers'
  >,
  usual: number,
): number {
  const value = Number(values[name] ?? usual)
  if (!(value > 0)) throw new Error(`--${name} must be a positive number`)
  return value
}
