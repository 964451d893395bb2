import type { WaitCause } from './timeline.prepare.ts'

/** What is drawn with, by what it means; each theme has its own colours for them. */
export type Ink =
  | WaitCause
  | 'surface'
  | 'hover'
  | 'line'
  | 'line-strong'
  | 'ink'
  | 'ink-2'
  | 'ink-3'
  | 'accent'
  | 'bar'
  | 'mark'
  | 'bad'

/** Colours as CSS knows them, resolved for one theme. */
export type Inks = Readonly<Record<Ink, string>>

/** The token of each ink. */
export const INK_TOKENS: Readonly<Record<Ink, string>> = {
  queue: '--data-8',
  router: '--data-6',
  service: '--data-2',
  retry: '--data-4',
  surface: '--surface',
  hover: '--hover',
  line: '--line',
  'line-strong': '--line-strong',
  ink: '--ink',
  'ink-2': '--ink-2',
  'ink-3': '--ink-3',
  accent: '--accent',
  bar: '--data-3',
  mark: '--data-1',
  bad: '--bad',
}

/** How a text stands: `end` ends at its place. */
export interface TextLook {
  ink: Ink
  sizePx?: number
  align?: 'start' | 'middle' | 'end'
  mono?: boolean
  bold?: boolean
}

/** Pixels from the left and the top. */
export interface Box {
  x: number
  y: number
  width: number
  height: number
}

/**
 * Draws on a canvas or writes an SVG. Lists are flat (x, y, width, height, x, …), one call a look: 16,000 marks are
 * then a handful of paths.
 */
export interface Painter {
  boxes(flat: readonly number[], ink: Ink, alpha?: number): void
  dots(flat: readonly number[], radius: number, ink: Ink): void
  rings(flat: readonly number[], radius: number, ink: Ink): void
  /** Failed samples: hatched squares of `size` around their centres. */
  failures(flat: readonly number[], size: number): void
  /** From x, y to x, y. */
  lines(flat: readonly number[], ink: Ink, look?: { width?: number; dash?: boolean }): void
  /** `y` is the middle of the line. */
  text(x: number, y: number, text: string, look: TextLook): void
  /** What `draw` draws is seen inside of the box alone. */
  clipped(box: Box, draw: () => void): void
}
