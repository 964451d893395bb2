import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { EpisodeResult } from './episode.ts'

export interface TallyEntry {
  seed: number
  setup: string
  kinds: string[]
  bug: string | null
  samples: number
  tookMs: number
  laws: string[]
  messages: string[]
}

export function readTally(path: string): TallyEntry[] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as TallyEntry)
}

/** Appends an episode to a tally file, which concurrent runs may share. */
export function addToTally(path: string, result: EpisodeResult, bug: string | null): void {
  const { schedule, violations, samples, tookMs } = result
  const entry: TallyEntry = {
    seed: schedule.seed,
    setup: schedule.setup.name,
    kinds: schedule.faults.map(({ kind }) => kind),
    bug,
    samples,
    tookMs: Math.round(tookMs),
    laws: [...new Set(violations.map(({ law }) => law))],
    messages: violations.map(({ law, message }) => `${law}: ${message}`),
  }
  appendFileSync(path, `${JSON.stringify(entry)}\n`)
}

/** Writes the tally as Markdown tables. An episode with several kinds of fault counts once for each kind. */
export function tallyTable(entries: readonly TallyEntry[]): string {
  const lines = ['| fault | episodes | samples | broken | laws |', '|---|---|---|---|---|']
  const own = entries.filter(({ bug }) => bug === null)
  const kinds = [...new Set(own.flatMap((entry) => entry.kinds))].sort()
  const row = (name: string, some: readonly TallyEntry[]) => {
    const broken = some.filter(({ laws }) => laws.length > 0)
    const samples = some.reduce((sum, entry) => sum + entry.samples, 0)
    const laws = new Map<string, number>()
    for (const law of broken.flatMap((entry) => entry.laws)) laws.set(law, (laws.get(law) ?? 0) + 1)
    const counts = [...laws].map(([law, n]) => `${law} ${n}`).join(', ')
    lines.push(`| ${name} | ${some.length} | ${samples} | ${broken.length} | ${counts} |`)
  }
  for (const kind of kinds)
    row(
      kind,
      own.filter((entry) => entry.kinds.includes(kind)),
    )
  row('all', own)
  const bugs = [...new Set(entries.flatMap(({ bug }) => bug ?? []))].sort()
  if (bugs.length > 0)
    lines.push('', '| planted bug | episodes | caught | seed | laws |', '|---|---|---|---|---|')
  for (const bug of bugs) {
    const some = entries.filter((entry) => entry.bug === bug)
    const caught = some.find(({ laws }) => laws.length > 0)
    lines.push(
      `| ${bug} | ${some.length} | ${caught ? 'yes' : 'no'} | ${caught?.seed ?? ''} | ${caught?.laws.join(', ') ?? ''} |`,
    )
  }
  return lines.join('\n')
}
