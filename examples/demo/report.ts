import { number } from '../../packages/cli/progress.ts'
import type { GroupResult, SampleInput } from '../../server/contract/trainer.ts'
import type { Reward } from './collect.ts'

/** The rollouts of one step, scored by rule (null if a data source has no rule) and by model. */
export interface Scored {
  samples: readonly SampleInput[]
  rule: { rewards: readonly Reward[]; groups: readonly GroupResult[] } | null
  model: { rewards: readonly Reward[] }
}

export interface ReportRow {
  name: string
  n: number
  /** Samples that the rule finds correct; null if no rule applies. */
  correct: number | null
  /** The rule's mean reward over the scored samples; null if there are none. */
  meanReward: number | null
  meanModelScore: number | null
  failed: number
}

export interface Report {
  byDataSource: ReportRow[]
  /** Rows by `extraInfo.model`, else `extraInfo.policy`; empty if no sample has either. */
  byPolicy: ReportRow[]
  groups: { n: number; allRight: number; noneRight: number; size: number | null } | null
  /**
   * `n` counts the pairs of a correct and an incorrect response in one group. `preferred` counts the pairs in which the
   * model prefers the correct response; a tie counts 0.5.
   */
  pairs: { n: number; preferred: number } | null
}

export function isCorrect(score: number | null, acc: unknown): boolean {
  if (typeof acc === 'boolean') return acc
  if (typeof acc === 'number') return acc === 1
  return score === 1
}

export function summarize(steps: readonly Scored[]): Report {
  const bySource = new Map<string, Tally>()
  const byPolicy = new Map<string, Tally>()
  const groups = { n: 0, allRight: 0, noneRight: 0, sizes: new Set<number>() }
  const pairs = { n: 0, preferred: 0 }
  let ruled = false
  for (const { samples, rule, model } of steps) {
    samples.forEach((sample, i) => {
      const byRule = rule?.rewards[i] ?? null
      const byModel = model.rewards[i]!
      tallyOf(bySource, sample.dataSource).add(byRule, byModel)
      const policy = sample.extraInfo?.model ?? sample.extraInfo?.policy
      if (typeof policy === 'string') tallyOf(byPolicy, policy).add(byRule, byModel)
    })
    if (!rule) continue
    ruled = true
    for (const group of rule.groups) {
      const right = group.samples.filter((s) => isCorrect(s.score, s.rewardExtraInfo.acc))
      groups.n += 1
      groups.sizes.add(group.samples.length)
      if (right.length === group.samples.length) groups.allRight += 1
      if (right.length === 0) groups.noneRight += 1
      const wrong = group.samples.filter((s) => !isCorrect(s.score, s.rewardExtraInfo.acc))
      for (const a of right) {
        for (const b of wrong) {
          const scoreA = model.rewards[a.index]?.score ?? null
          const scoreB = model.rewards[b.index]?.score ?? null
          if (scoreA === null || scoreB === null) continue
          pairs.n += 1
          pairs.preferred += scoreA > scoreB ? 1 : scoreA === scoreB ? 0.5 : 0
        }
      }
    }
  }
  const { sizes, ...counts } = groups
  return {
    byDataSource: rows(bySource),
    byPolicy: rows(byPolicy),
    groups: ruled ? { ...counts, size: sizes.size === 1 ? [...sizes][0]! : null } : null,
    pairs: pairs.n > 0 ? pairs : null,
  }
}

export function renderReport(report: Report, modelName: string): string[] {
  const lines = ['', ...table(report, modelName), '']
  const { byPolicy, groups, pairs } = report
  const n = byPolicy[0]?.n
  if (byPolicy.length > 1 && byPolicy.every((row) => row.n === n && row.correct !== null)) {
    const correct = byPolicy.map((row) => number(row.correct as number)).join(' · ')
    lines.push(`${correct} correct of ${number(n as number)} (${names(byPolicy)})`)
  }
  if (groups) {
    const all = groups.size === null ? 'all' : `all ${spelled(groups.size)}`
    lines.push(
      `${number(groups.n)} groups: ${number(groups.allRight)} with ${all} correct, ${number(groups.noneRight)} with none, ${number(groups.n - groups.allRight - groups.noneRight)} mixed`,
    )
  }
  if (pairs) {
    const share = ((pairs.preferred / pairs.n) * 100).toFixed(1)
    lines.push(
      `${modelName} prefers the correct response in ${share} % of ${number(pairs.n)} pairs of a correct and an incorrect response (50 % is chance)`,
    )
  }
  return lines
}

class Tally {
  n = 0
  failed = 0
  correct: number | null = null
  private rule = { sum: 0, n: 0 }
  private model = { sum: 0, n: 0 }

  add(byRule: Reward | null, byModel: Reward): void {
    this.n += 1
    if (byRule) {
      this.correct = (this.correct ?? 0) + Number(isCorrect(byRule.score, byRule.acc))
      if (byRule.score !== null) {
        this.rule.sum += byRule.score
        this.rule.n += 1
      }
    }
    if (byModel.score !== null) {
      this.model.sum += byModel.score
      this.model.n += 1
    }
    if (byModel.score === null || byRule?.score === null) this.failed += 1
  }

  row(name: string): ReportRow {
    const { n, correct, failed, rule, model } = this
    return {
      name,
      n,
      correct,
      meanReward: rule.n === 0 ? null : rule.sum / rule.n,
      meanModelScore: model.n === 0 ? null : model.sum / model.n,
      failed,
    }
  }
}

function tallyOf(tallies: Map<string, Tally>, name: string): Tally {
  let tally = tallies.get(name)
  if (!tally) {
    tally = new Tally()
    tallies.set(name, tally)
  }
  return tally
}

function rows(tallies: Map<string, Tally>): ReportRow[] {
  return [...tallies].map(([name, tally]) => tally.row(name))
}

function table(report: Report, modelName: string): string[] {
  const header = ['', 'n', 'correct', '', 'mean reward', `mean of ${modelName}`, 'failed']
  const cells = (row: ReportRow): string[] => [
    `  ${row.name}`,
    number(row.n),
    row.correct === null ? '–' : number(row.correct),
    row.correct === null ? '' : `${((row.correct / row.n) * 100).toFixed(1)} %`,
    fixed(row.meanReward),
    fixed(row.meanModelScore),
    number(row.failed),
  ]
  const lines = [
    header,
    ['by data source'],
    ...report.byDataSource.map(cells),
    ...(report.byPolicy.length > 0 ? [['by policy'], ...report.byPolicy.map(cells)] : []),
  ]
  const widths = header.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)))
  return lines.map((line) =>
    line
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd(),
  )
}

function fixed(value: number | null): string {
  return value === null ? '–' : value.toFixed(3)
}

function names(rows: readonly ReportRow[]): string {
  return rows.map((row) => row.name).join(' · ')
}

function spelled(size: number): string {
  return (
    ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'][size] ?? String(size)
  )
}
