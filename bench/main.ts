import { availableParallelism, cpus } from 'node:os'
import { measureGroups } from './groups.ts'
import type { Emit } from './harness.ts'
import { measureMemory } from './memory.ts'
import { measurePageLoad } from './page-load.ts'
import { measureProxy } from './proxy.ts'
import { measureRate } from './rate.ts'
import { measureRules } from './rules.ts'
import { measureSingle } from './single.ts'

/** By the name one selects them with: `npm run bench -- rate single`. */
const MEASUREMENTS: Record<string, (emit: Emit) => Promise<void>> = {
  rate: measureRate,
  'page-load': measurePageLoad,
  memory: measureMemory,
  single: measureSingle,
  groups: measureGroups,
  rules: measureRules,
  proxy: measureProxy,
}

/** All of them together take about seven minutes on two cores; what hangs is not waited for. */
const LIMIT_MS = 10 * 60_000

const names = process.argv.slice(2)
const unknown = names.filter((name) => !Object.hasOwn(MEASUREMENTS, name))
if (unknown.length > 0) {
  const known = Object.keys(MEASUREMENTS).join(', ')
  console.error(`There is no measurement ${unknown.join(', ')}. Known: ${known}; none given: all.`)
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
  console.error(`The benchmark was not done after ${LIMIT_MS / 60_000} minutes.`)
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
