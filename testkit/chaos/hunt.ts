import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type EpisodeResult, runEpisode } from './episode.ts'
import type { PlantedBug } from './planted-bugs.ts'
import { scheduleOf } from './schedule.ts'
import { SourceTree } from './source-tree.ts'

export interface Catch {
  seed: number
  setup: string
  kinds: string[]
  laws: string[]
  /** Number of episodes up to and including the catch. */
  episodes: number
}

/**
 * Runs a copy of the product with a bug until the checker finds a violation of one of the bug's laws. A violation that the
 * same seed also shows without the bug does not count. Returns null if no episode catches the bug.
 */
export async function huntBug(
  bug: PlantedBug,
  range: { first: number; episodes: number },
  onEpisode: (result: EpisodeResult) => void = () => {},
): Promise<Catch | null> {
  const tree = await SourceTree.make(bug)
  let clean: SourceTree | null = null
  try {
    for (let k = 0; k < range.episodes; k++) {
      const schedule = scheduleOf(range.first + k, { setup: bug.setup, kinds: bug.kinds })
      // A pooler's refusals would hide the bug.
      if (schedule.setup.pooler !== 'none') continue
      const result = await runEpisode(schedule, tree)
      onEpisode(result)
      result.remove()
      const laws = lawsOf(result).filter((law) => (bug.laws as string[]).includes(law))
      if (laws.length === 0) continue
      const kinds = schedule.faults.map(({ kind }) => kind)
      const caught = {
        seed: schedule.seed,
        setup: schedule.setup.name,
        kinds,
        laws,
        episodes: k + 1,
      }
      // Without faults the product breaks no law, as runs of `--kind none` show, so this catch needs no control run.
      if (kinds.every((kind) => kind === 'none')) return caught
      clean ??= await SourceTree.make(null)
      const control = await runEpisode(schedule, clean)
      control.remove()
      const own = laws.filter((law) => !lawsOf(control).includes(law))
      if (own.length === 0) continue
      return { ...caught, laws: own }
    }
    return null
  } finally {
    tree.remove()
    clean?.remove()
  }
}

function lawsOf({ violations }: EpisodeResult): string[] {
  return [...new Set(violations.map(({ law }) => law as string))]
}

export function recordCatch(path: string, name: string, caught: Catch): void {
  const catches = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, Catch>)
    : {}
  catches[name] = caught
  const sorted = Object.fromEntries(Object.entries(catches).sort(([a], [b]) => a.localeCompare(b)))
  writeFileSync(path, `${JSON.stringify(sorted, null, 2)}\n`)
}
