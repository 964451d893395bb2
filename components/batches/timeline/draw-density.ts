import type { Density } from './density.ts'
import type { Box, Inks } from './painter.ts'

/** Red, green and blue of a colour that the browser resolved. */
function rgb(colour: string): [number, number, number] {
  const [r, g, b] = (colour.match(/[\d.]+/g) ?? []).map(Number)
  return [r ?? 0, g ?? 0, b ?? 0]
}

/**
 * Draws rows that were added up: the more of a pixel's groups are under way, the fuller its bar colour; the more samples
 * end there, the fuller the mark's; any failure is red.
 */
export function drawDensity(
  context: CanvasRenderingContext2D,
  density: Density,
  box: Box,
  inks: Inks,
): void {
  const { width, height } = density
  const image = context.createImageData(width, height)
  const pixels = new Uint32Array(image.data.buffer)
  const [bar, mark, bad] = [rgb(inks.bar), rgb(inks.mark), rgb(inks.bad)]
  for (let y = 0; y < height; y++) {
    const rows = Math.max(1, density.perRow[y] as number)
    for (let x = 0; x < width; x++) {
      const cell = y * width + x
      const ends = density.ends[cell] as number
      const failed = density.failed[cell] as number
      const under = (density.groups[cell] as number) / rows
      if (ends === 0 && under === 0) continue
      const ink = failed > 0 ? bad : ends > 0 ? mark : bar
      // One sample alone is seen; from four a row on a pixel is full.
      const alpha =
        failed > 0 ? 1 : ends > 0 ? Math.min(1, 0.4 + (0.6 * ends) / (4 * rows)) : 0.5 * under
      // Little-endian, as every browser's machine is.
      pixels[cell] = (Math.round(alpha * 255) << 24) | (ink[2] << 16) | (ink[1] << 8) | ink[0]
    }
  }
  const sheet = new OffscreenCanvas(width, height)
  sheet.getContext('2d')?.putImageData(image, 0, 0)
  context.imageSmoothingEnabled = false
  context.drawImage(sheet, box.x, box.y, width, height)
}
