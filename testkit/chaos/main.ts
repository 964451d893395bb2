import { parseArgs } from 'node:util'
import { runEpisode } from './episode.ts'
import { huntBug, recordCatch } from './hunt.ts'
import { PLANTED_BUGS, type PlantedBug } from './planted-bugs.ts'
import { printViolations, summaryLine } from './report.ts'
import { type FaultKind, KINDS, scheduleOf } from './schedule.ts'
import { SETUPS } from './setups.ts'
import { SourceTree } from './source-tree.ts'
import { addToTally, readTally, tallyTable } from './tally.ts'

const USAGE = `npm run test:chaos -- [options]

Runs whole services in real processes under faults from a seeded schedule, and checks the history of
trainer and reward models.

  --seed 1          the first seed; each episode takes the next
  --episodes 10
  --setup NAME      ${SETUPS.map(({ name }) => name).join(' | ')}; default: drawn from the seed
  --kind KIND       ${KINDS.join(' | ')};
                    may be repeated; default: drawn from the seed
  --for SECONDS     duration of every fault; default: drawn from the seed
  --plant BUG       runs a copy of the product with this bug until it is caught; "list" lists the bugs; "all", or
                    several names with commas between them, runs one bug after the other
  --record FILE     adds the seeds that caught planted bugs to a file
  --until-caught    stops at the first violation
  --tally FILE      appends the outcome of every episode to a file
  --report          prints the --tally file as a table by kind of fault, and runs nothing
  --keep            keeps the folders of episodes with violations`

// The exit of this process kills the stacks that still run.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => process.exit(130))

try {
  process.exitCode = await main()
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 2
}

async function main(): Promise<number> {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({
    options: {
      seed: { ...text, default: '1' },
      episodes: { ...text, default: '10' },
      setup: text,
      kind: { ...text, multiple: true },
      for: text,
      plant: text,
      record: text,
      tally: text,
      report: flag,
      keep: flag,
      'until-caught': flag,
      help: flag,
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  if (values.report) {
    if (values.tally === undefined) throw new Error('--report needs --tally FILE')
    console.log(tallyTable(readTally(values.tally)))
    return 0
  }
  if (values.plant === 'list') {
    for (const { name, laws, kinds } of PLANTED_BUGS) console.log(`${name}  ${laws}  ${kinds}`)
    return 0
  }
  const kinds = values.kind as FaultKind[] | undefined
  const unknown = kinds?.find((kind) => !KINDS.includes(kind))
  if (unknown !== undefined)
    throw new Error(`unknown kind "${unknown}"; known: ${KINDS.join(', ')}`)
  const forMs = values.for === undefined ? undefined : 1_000 * Number(values.for)
  const range = { first: Number(values.seed), episodes: Number(values.episodes) }
  const { tally, record } = values
  if (values.plant !== undefined) {
    const bugs = values.plant.split(',').flatMap((name) => bugsNamed(name))
    let missed = 0
    for (const bug of bugs) {
      const caught = await huntBug(bug, range, (result) => {
        console.log(`${bug.name}: ${summaryLine(result)}`)
        for (const { law, message } of result.violations) console.log(`  ${law}: ${message}`)
        if (tally !== undefined) addToTally(tally, result, bug.name)
      })
      if (caught === null) missed++
      else if (record !== undefined) recordCatch(record, bug.name, caught)
      console.log(
        caught === null ? `NOT caught: ${bug.name}` : `caught: ${bug.name} by ${caught.laws}`,
      )
    }
    return missed === 0 ? 0 : 1
  }
  const tree = await SourceTree.make(null)
  let broken = 0
  try {
    for (let k = 0; k < range.episodes; k++) {
      const schedule = scheduleOf(range.first + k, { setup: values.setup, kinds, forMs })
      const result = await runEpisode(schedule, tree)
      console.log(summaryLine(result))
      if (tally !== undefined) addToTally(tally, result, null)
      const isBroken = result.violations.length > 0
      if (isBroken) printViolations(result)
      if (isBroken && values.keep) console.log(`  kept: ${result.folder}`)
      else result.remove()
      if (isBroken) broken++
      if (isBroken && values['until-caught']) break
    }
  } finally {
    tree.remove()
  }
  return broken === 0 ? 0 : 1
}

function bugsNamed(name: string): PlantedBug[] {
  if (name === 'all') return [...PLANTED_BUGS]
  const bug = PLANTED_BUGS.find((one) => one.name === name)
  if (bug === undefined) throw new Error(`unknown bug "${name}"; --plant list lists them`)
  return [bug]
}
