import type { PassLevel } from './prompt-steps.prepare.ts'

export const PASS_LABEL: Record<PassLevel, string> = {
  none: 'None passed',
  some: 'Below half',
  most: 'Half or more',
  all: 'All passed',
}

/** Colors of the pass levels. The first and last level have the colors of all-incorrect and all-correct groups. */
export const PASS_COLOR: Record<PassLevel, string> = {
  none: 'var(--data-2)',
  some: 'color-mix(in oklab, var(--data-2) 40%, var(--line-strong))',
  most: 'color-mix(in oklab, var(--data-3) 40%, var(--line-strong))',
  all: 'var(--data-3)',
}

/**
 * The color of the line for k: a single hue, darker for larger k. One hue suffices, because the lines never cross.
 */
export function kColor(ks: readonly number[], k: number): string {
  const share = ks.length < 2 ? 1 : ks.indexOf(k) / (ks.length - 1)
  return `color-mix(in oklab, var(--data-1) ${Math.round(30 + 70 * share)}%, var(--line-strong))`
}
