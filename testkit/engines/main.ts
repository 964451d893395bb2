import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Service } from '../service/service.ts'
import { cacheDir, install, makeModels, nameOf, RELEASES, type Release } from './cache.ts'
import { type Outcome, runStage } from './checks.ts'
import { record } from './record.ts'
import { markdownOf, type Planned } from './report.ts'
import { checkServeReward, SERVE_REWARD_CHECK } from './serve-reward.ts'
import { stagesOf } from './stages.ts'

// npm run test:engines -- [options]
//   --only vllm@0.32.0,llamacpp   releases, engines (all their releases) or `serve-reward`
//   --models rm1,prm              only these models
//   --write-docs                  writes docs/engines.md, with the last outcomes of the checks that are skipped
//   --record                      records the servers' answers instead of running checks

const ROOT = join(import.meta.dirname, '../..')
const SERVE_REWARD = 'serve-reward'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    models: { type: 'string' },
    'write-docs': { type: 'boolean' },
    record: { type: 'boolean' },
  },
})
const models = values.models?.split(',') ?? null

function wanted(): { releases: Release[]; servesReward: boolean } {
  const names = values.only?.split(',')
  if (names === undefined) return { releases: [...RELEASES], servesReward: true }
  const known = [...RELEASES.flatMap((r) => [nameOf(r), r.engine]), SERVE_REWARD]
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) {
    throw new Error(`--only: unknown name ${unknown}; known: ${[...new Set(known)].join(', ')}`)
  }
  const releases = RELEASES.filter((r) => names.includes(nameOf(r)) || names.includes(r.engine))
  return { releases, servesReward: names.includes(SERVE_REWARD) }
}

/** The file with the last outcome of every check, so that docs/engines.md can combine several runs. */
const OUTCOMES = join(cacheDir(), 'outcomes.json')

function readOutcomes(): Outcome[] {
  try {
    return JSON.parse(readFileSync(OUTCOMES, 'utf8')) as Outcome[]
  } catch {
    return []
  }
}

function store(outcome: Outcome): void {
  const others = readOutcomes().filter(
    ({ release, check }) => release !== outcome.release || check !== outcome.check,
  )
  writeFileSync(OUTCOMES, JSON.stringify([...others, outcome], null, 2))
}

async function main(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  const { releases, servesReward } = wanted()
  mkdirSync(cacheDir(), { recursive: true })
  for (const release of releases) {
    console.log(`${nameOf(release)}: installing if missing`)
    await install(release)
  }
  if (releases.length > 0) await makeModels()
  if (values.record) {
    for (const release of releases) await record(release, models, console.log)
    return
  }
  let failures = 0
  const report = (outcome: Outcome) => {
    if (!outcome.ok) failures += 1
    store(outcome)
    const { release, check, ok, detail } = outcome
    console.log(`${ok ? 'pass' : 'FAIL'}  ${release}  ${check}: ${detail}`)
  }
  const service = await Service.start()
  try {
    if (servesReward) report(await checkServeReward(service))
    for (const release of releases) {
      for (const stage of stagesOf(release)) {
        if (models !== null && !models.includes(stage.model)) continue
        await runStage(release, stage, service, report)
      }
    }
  } finally {
    await service.destroy()
  }
  const planned: Planned[] = [
    ...RELEASES.flatMap((release) =>
      stagesOf(release).flatMap(({ checks }) =>
        checks.map(({ name }) => ({ release: nameOf(release), check: name })),
      ),
    ),
    { release: SERVE_REWARD, check: SERVE_REWARD_CHECK },
  ]
  // Outcomes of removed checks are dropped.
  const outcomes = planned.flatMap(
    ({ release, check }) =>
      readOutcomes().find((outcome) => outcome.release === release && outcome.check === check) ??
      [],
  )
  const page = markdownOf(planned, outcomes, new Date().toISOString().slice(0, 10))
  console.log(page)
  if (values['write-docs']) writeFileSync(join(ROOT, 'docs/engines.md'), page)
  process.exitCode = failures > 0 ? 1 : 0
}

await main()
