import type { Prediction } from '../../server/planner/overlap.ts'
import type { EmulationOptions } from './options.ts'
import type { Emulated } from './trainer.ts'

/** A run, and what the planner says of it. */
export interface Compared {
  emulated: Emulated
  predicted: Prediction
}

/** What the upstream authors measured against their barrier, by strategy, percent less (verl PR 2854, 7B, Megatron). */
const THEIRS: Readonly<Record<string, number>> = {
  'pipeline@256': 12.3,
  'off_policy@256': 25.16,
  'both@256': 30.85,
}

/** The runs as a table: seconds a step, as if nothing had been scaled. */
export function tableOf(compared: readonly Compared[], options: EmulationOptions): string {
  const first = compared.find(({ emulated }) => emulated.run.strategy === 'barrier')
  const rows = compared.map(({ emulated, predicted }) => {
    const { run, stepMs, steadyMs, waitMs } = emulated
    const less = first ? 100 * (1 - stepMs / first.emulated.stepMs) : null
    return [
      run.name,
      seconds(stepMs),
      seconds(steadyMs),
      seconds(waitMs),
      seconds(predicted.boundMs),
      signed(100 * (steadyMs / predicted.boundMs - 1)),
      seconds(predicted.stepMs),
      signed(100 * (stepMs / predicted.stepMs - 1)),
      less === null ? '' : `${less.toFixed(1)} %`,
      THEIRS[run.name] === undefined ? '' : `${THEIRS[run.name]} %`,
    ]
  })
  const head = [
    ...['strategy', 's/step', 'steady', 'waiting', 'bound', 'steady over bound'],
    ...['predicted', 'off by', 'less than barrier', 'theirs'],
  ]
  const widths = head.map((title, c) =>
    Math.max(title.length, ...rows.map((row) => (row[c] as string).length)),
  )
  const line = (row: readonly string[]) =>
    row
      .map((cell, c) => (c === 0 ? cell.padEnd(widths[c] ?? 0) : cell.padStart(widths[c] ?? 0)))
      .join('  ')
  const { prompts, responses, steps, miniBatches, scale } = options
  return [
    `${prompts} prompts × ${responses}, ${miniBatches} mini-batches, ${steps} steps, 1:${scale}; seconds before scaling. @n: rewards at once.`,
    'steady: from the end of the first step to that of the last, a step. How a step’s own time splits into phases is ours.',
    '',
    line(head),
    ...rows.map(line),
  ].join('\n')
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}

function signed(percent: number): string {
  return `${percent >= 0 ? '+' : ''}${percent.toFixed(1)} %`
}
