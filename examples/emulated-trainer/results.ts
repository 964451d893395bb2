import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { STRATEGIES } from '../../server/planner/overlap.ts'
import type { Compared } from './laboratory.ts'
import { tableOf } from './report.ts'

export async function keepResult(folder: string, result: Compared): Promise<void> {
  await mkdir(folder, { recursive: true })
  const { spans: _, ...summary } = result.emulated
  await writeFile(
    join(folder, `${summary.run.name}.json`),
    `${JSON.stringify({ ...result, emulated: summary }, null, 2)}\n`,
  )
  await writeFile(join(folder, 'table.md'), `${tableOf(await readResults(folder))}\n`)
}

/** Reads the results in a folder: first runs with a concurrency limit, then the others, each in order of strategy. */
export async function readResults(folder: string): Promise<Compared[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.json'))
  const results = await Promise.all(
    files.map(async (file) => JSON.parse(await readFile(join(folder, file), 'utf8')) as Compared),
  )
  const order = ({ emulated: { run } }: Compared) =>
    STRATEGIES.indexOf(run.strategy) + (run.concurrency === null ? STRATEGIES.length : 0)
  return results.sort((a, b) => order(a) - order(b))
}
