import type { Density } from './density.ts'
import type { Box, Inks } from './painter.ts'

/** Parses a resolved CSS color into a pixel of ImageData, without alpha. */
function pixelOf(color: string): number {
  const [r, g, b] = (color.match(/[\d.]+/g) ?? []).map(Number)
  // Little-endian, as on every platform with a browser.
  return ((b ?? 0) << 16) | ((g ?? 0) << 8) | (r ?? 0)
}

/** An off-screen canvas and its pixels. It is reused while the size stays the same. */
export interface Sheet {
  canvas: OffscreenCanvas
  image: ImageData
}

export function sheetFor(density: Density, used: Sheet | null): Sheet {
  const { width, height } = density
  if (used?.image.width === width && used.image.height === height) return used
  return { canvas: new OffscreenCanvas(width, height), image: new ImageData(width, height) }
}

/**
 * Draws aggregated rows. The opacity of a pixel grows with its share of groups in progress and its number of finished
 * samples. A pixel with a failed sample is red.
 */
export function drawDensity(
  context: CanvasRenderingContext2D,
  { canvas, image }: Sheet,
  density: Density,
  box: Box,
  inks: Inks,
): void {
  const { width, height, groups, ends, failed, perRow } = density
  const pixels = new Uint32Array(image.data.buffer)
  const [bar, mark, bad] = [pixelOf(inks.bar), pixelOf(inks.mark), pixelOf(inks.bad)]
  for (let y = 0; y < height; y++) {
    const rows = Math.max(1, perRow[y] as number)
    const full = 127 / rows
    const more = 153 / (4 * rows)
    for (let x = 0; x < width; x++) {
      const cell = y * width + x
      const ended = ends[cell] as number
      // A single sample is visible, and four samples per group reach full opacity.
      if (ended === 0) {
        const under = groups[cell + y] as number
        pixels[cell] = under === 0 ? 0 : bar | ((under * full) << 24)
      } else if ((failed[cell] as number) > 0) pixels[cell] = bad | (255 << 24)
      else pixels[cell] = mark | (Math.min(255, 102 + ended * more) << 24)
    }
  }
  canvas.getContext('2d')?.putImageData(image, 0, 0)
  context.imageSmoothingEnabled = false
  context.drawImage(canvas, box.x, box.y, width, height)
}
