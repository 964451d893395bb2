import { INK_TOKENS, type Ink, type Inks, type Painter } from './painter.ts'

/** The page fonts, in canvas syntax. */
interface Fonts {
  sans: string
  mono: string
}

/** Reads the colors and fonts of an element. They depend on the theme, which only the browser knows. */
export function readLook(element: HTMLElement): { inks: Inks; fonts: Fonts } {
  const probe = document.createElement('span')
  probe.style.display = 'none'
  element.append(probe)
  const inks = {} as Record<Ink, string>
  for (const [ink, token] of Object.entries(INK_TOKENS)) {
    probe.style.color = `var(${token})`
    inks[ink as Ink] = getComputedStyle(probe).color
  }
  probe.style.fontFamily = 'var(--font-mono)'
  const mono = getComputedStyle(probe).fontFamily
  const sans = getComputedStyle(element).fontFamily
  probe.remove()
  return { inks, fonts: { sans, mono } }
}

/** Sizes a canvas for its screen and clears it. Units are CSS pixels; `scale` is device pixels per CSS pixel. */
export function openCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  scale = Math.min(2, window.devicePixelRatio || 1),
): CanvasRenderingContext2D | null {
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))]
  if (canvas.width !== w) canvas.width = w
  if (canvas.height !== h) canvas.height = h
  const context = canvas.getContext('2d')
  context?.setTransform(scale, 0, 0, scale, 0, 0)
  context?.clearRect(0, 0, width, height)
  return context
}

export function canvasPainter(
  context: CanvasRenderingContext2D,
  inks: Inks,
  fonts: Fonts,
): Painter {
  let hatch: CanvasPattern | null = null
  return {
    boxes(flat, ink, alpha = 1) {
      context.globalAlpha = alpha
      context.fillStyle = inks[ink]
      for (let i = 0; i < flat.length; i += 4)
        context.fillRect(
          flat[i] as number,
          flat[i + 1] as number,
          flat[i + 2] as number,
          flat[i + 3] as number,
        )
      context.globalAlpha = 1
    },
    dots(flat, radius, ink) {
      context.fillStyle = inks[ink]
      context.beginPath()
      for (let i = 0; i < flat.length; i += 2) {
        const [x, y] = [flat[i] as number, flat[i + 1] as number]
        context.moveTo(x + radius, y)
        context.arc(x, y, radius, 0, Math.PI * 2)
      }
      context.fill()
    },
    rings(flat, radius, ink) {
      context.strokeStyle = inks[ink]
      context.lineWidth = 1.5
      context.beginPath()
      for (let i = 0; i < flat.length; i += 2) {
        const [x, y] = [flat[i] as number, flat[i + 1] as number]
        context.moveTo(x + radius, y)
        context.arc(x, y, radius, 0, Math.PI * 2)
      }
      context.stroke()
    },
    failures(flat, size) {
      hatch ??= hatchPattern(context, inks)
      context.fillStyle = size >= 6 && hatch !== null ? hatch : inks.bad
      context.strokeStyle = inks.bad
      context.lineWidth = 1
      for (let i = 0; i < flat.length; i += 2) {
        const [x, y] = [(flat[i] as number) - size / 2, (flat[i + 1] as number) - size / 2]
        context.fillRect(x, y, size, size)
        if (size >= 6) context.strokeRect(x, y, size, size)
      }
    },
    lines(flat, ink, look = {}) {
      context.strokeStyle = inks[ink]
      context.lineWidth = look.width ?? 1
      context.setLineDash(look.dash ? [3, 3] : [])
      context.beginPath()
      for (let i = 0; i < flat.length; i += 4) {
        context.moveTo(flat[i] as number, flat[i + 1] as number)
        context.lineTo(flat[i + 2] as number, flat[i + 3] as number)
      }
      context.stroke()
      context.setLineDash([])
    },
    text(x, y, text, { ink, sizePx = 11, align = 'start', mono, bold }) {
      context.font = `${bold ? 600 : 400} ${sizePx}px ${mono ? fonts.mono : fonts.sans}`
      context.fillStyle = inks[ink]
      context.textAlign = align === 'middle' ? 'center' : align
      context.textBaseline = 'middle'
      context.fillText(text, x, y)
    },
    clipped(box, draw) {
      context.save()
      context.beginPath()
      context.rect(box.x, box.y, box.width, box.height)
      context.clip()
      draw()
      context.restore()
    },
  }
}

function hatchPattern(context: CanvasRenderingContext2D, inks: Inks): CanvasPattern | null {
  const tile = document.createElement('canvas')
  tile.width = 4
  tile.height = 4
  const on = tile.getContext('2d')
  if (on === null) return null
  on.fillStyle = inks.surface
  on.fillRect(0, 0, 4, 4)
  on.strokeStyle = inks.bad
  on.lineWidth = 1.5
  on.beginPath()
  for (const shift of [-4, 0, 4]) {
    on.moveTo(shift, 4)
    on.lineTo(shift + 4, 0)
  }
  on.stroke()
  return context.createPattern(tile, 'repeat')
}
