import { saveFile } from '../../ui/save-file.ts'
import { canvasPainter, openCanvas, readLook } from './canvas-painter.ts'
import { drawPicture, type PictureWords, pictureScene } from './draw-picture.ts'
import type { TimelineScene } from './draw-timeline.ts'
import { svgPainter } from './svg-painter.ts'

/** The maximum canvas side in browsers, pixels. */
const MAX_PIXELS = 16_000

/** Saves the view as a file, in the colors of the current theme. Throws where the browser cannot create the image. */
export async function savePicture(
  kind: 'png' | 'svg',
  name: string,
  scene: Omit<TimelineScene, 'plot' | 'rowPx' | 'scrollPx'>,
  words: PictureWords,
): Promise<void> {
  const picture = pictureScene(scene, words)
  const { width, height } = picture
  const { inks, fonts } = readLook(document.body)
  if (kind === 'svg') {
    const painter = svgPainter(width, height, inks, {
      title: words.title,
      description: words.lines.join(' '),
    })
    drawPicture(painter, picture, words)
    saveFile(new Blob([painter.finish()], { type: 'image/svg+xml' }), `${name}.svg`)
    return
  }
  const canvas = document.createElement('canvas')
  const scale = Math.min(2, MAX_PIXELS / height)
  const context = openCanvas(canvas, width, height, scale)
  if (context === null) throw new Error('This browser has no canvas support.')
  drawPicture(canvasPainter(context, inks, fonts), picture, words)
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'))
  if (blob === null) throw new Error('The browser could not create the image.')
  saveFile(blob, `${name}.png`)
}
