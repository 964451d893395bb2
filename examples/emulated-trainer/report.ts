import type { Compared } from './laboratory.ts'

/** Reduction of the step time compared with the barrier strategy, in percent, from verl PR 2854 (7B, Megatron). */
const THEIRS: Readonly<Record<string, number>> = {
  'pipeline@256': 12.3,
  'off_policy@256': 25.16,
  'both@256': 30.85,
}

const HEAD = [
  ...['strategy', 's/step', 'waiting', 'bound', 'over bound', 'steady', 'steady over bound'],
  ...['predicted', 'off by', 'saved against barrier', 'reported'],
]

/** Formats the compared runs as a table. Times are in unscaled seconds per step. */
export function tableOf(compared: readonly Compared[]): string {
  const [first] = compared
  if (first === undefined) return 'There are no runs.'
  const barrier =
    compared.find(({ emulated }) => emulated.run.name === 'barrier@256') ??
    compared.find(({ emulated }) => emulated.run.strategy === 'barrier')
  const rows = compared.map((one) => {
    const { boundMs } = one
    const { run, stepMs, steadyMs, waitMs } = one.emulated
    const less = barrier ? 100 * (1 - stepMs / barrier.emulated.stepMs) : null
    return [
      run.name,
      seconds(stepMs),
      seconds(waitMs),
      seconds(boundMs),
      signed(100 * (stepMs / boundMs - 1)),
      seconds(steadyMs),
      signed(100 * (steadyMs / boundMs - 1)),
      seconds(one.predicted.stepMs),
      signed(100 * (stepMs / one.predicted.stepMs - 1)),
      less === null || one === barrier ? '' : `${less.toFixed(1)} %`,
      THEIRS[run.name] === undefined ? '' : `${THEIRS[run.name]} %`,
    ]
  })
  const { job, scale } = first
  const { rolloutMs, logProbMs, updateMs } = job.phases
  return [
    `${job.prompts} prompts × ${job.responses}, ${job.miniBatches} mini-batches, ${job.steps} steps, rewards of ${seconds(job.rewardMs.fromMs)} to ${seconds(job.rewardMs.toMs)} s, 1:${scale}; seconds before scaling.`,
    `Trainer time per step: ${seconds(rolloutMs)} + ${seconds(logProbMs)} + ${seconds(updateMs)} s (rollout, log-probs, updates). @256: 256 concurrent rewards.`,
    'Bound: the planner’s, the larger of trainer time and total reward time divided by the limit. Steady: without the first and the last step. Reported: saving that verl PR 2854 reports.',
    '',
    ...markdown(HEAD, rows),
  ].join('\n')
}

export function comparisonOf(compared: readonly { name: string; result: Compared }[]): string {
  const rows = compared.map(({ name, result }) => {
    const { emulated, predicted } = result
    return [
      name,
      seconds(emulated.stepMs),
      seconds(predicted.stepMs),
      signed(errorPercent(result)),
      seconds(emulated.waitMs),
      seconds(predicted.waitMs),
    ]
  })
  const worst = Math.max(...compared.map(({ result }) => Math.abs(errorPercent(result))))
  return [
    ...markdown(['configuration', 's/step', 'predicted', 'off by', 'waiting', 'predicted'], rows),
    '',
    `Largest error over ${compared.length} configurations: ${worst.toFixed(2)} % of a step.`,
  ].join('\n')
}

export function errorPercent({ emulated, predicted }: Compared): number {
  return 100 * (emulated.stepMs / predicted.stepMs - 1)
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((title, c) =>
    Math.max(title.length, ...rows.map((row) => (row[c] as string).length)),
  )
  const line = (row: readonly string[]) => {
    const cells = row.map((cell, c) =>
      c === 0 ? cell.padEnd(widths[c] ?? 0) : cell.padStart(widths[c] ?? 0),
    )
    return `| ${cells.join(' | ')} |`
  }
  const rule = widths.map((width, c) =>
    c === 0 ? '-'.repeat(width) : `${'-'.repeat(Math.max(1, width - 1))}:`,
  )
  return [line(head), `| ${rule.join(' | ')} |`, ...rows.map(line)]
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(ms > 0 && ms < 50 ? 3 : 1)
}

function signed(percent: number): string {
  return `${percent >= 0 ? '+' : ''}${percent.toFixed(2)} %`
}
