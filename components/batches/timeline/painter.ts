import type { WaitCause } from './timeline.prepare.ts'

/** Semantic colors; each theme maps them to its own values. */
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

export type Inks = Readonly<Record<Ink, string>>

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

/** The look of a text. `align` is the part of the text that is drawn at the given position. */
interface TextLook {
  ink: Ink
  sizePx?: number
  align?: 'start' | 'middle' | 'end'
  mono?: boolean
  bold?: boolean
}

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

/**
 * Draws on a canvas or writes an SVG. Shapes are passed as flat lists: x, y, width and height per rectangle, x and y
 * per dot, both ends per line. One call draws all shapes of a style, so 16,000 markers need only a few paths.
 */
export interface Painter {
  boxes(flat: readonly number[], ink: Ink, alpha?: number): void
  dots(flat: readonly number[], radius: number, ink: Ink): void
  rings(flat: readonly number[], radius: number, ink: Ink): void
  /** Draws failed samples as hatched squares of `size`, centered on the points. */
  failures(flat: readonly number[], size: number): void
  lines(flat: readonly number[], ink: Ink, look?: { width?: number; dash?: boolean }): void
  /** `y` is the vertical middle of the text. */
  text(x: number, y: number, text: string, look: TextLook): void
  clipped(box: Box, draw: () => void): void
}
