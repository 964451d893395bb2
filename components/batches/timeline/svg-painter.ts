import type { Inks, Painter } from './painter.ts'

const FONTS = {
  sans: 'Geist, ui-sans-serif, system-ui, sans-serif',
  mono: '&quot;Geist Mono&quot;, ui-monospace, monospace',
}
const n = (value: number) => String(Math.round(value * 100) / 100)
const escaped = (text: string) =>
  text
    // Replaces characters that XML 1.0 cannot hold. Trainers choose the uids, which may contain any character.
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')

/** A painter that writes a self-contained SVG in the colors of one theme. `finish` returns its text. */
export function svgPainter(
  width: number,
  height: number,
  inks: Inks,
  about: { title: string; description: string },
): Painter & { finish(): string } {
  const parts: string[] = []
  let clips = 0
  const circles = (flat: readonly number[], radius: number) => {
    const [r, across] = [n(radius), n(radius * 2)]
    let path = ''
    for (let i = 0; i < flat.length; i += 2)
      path += `M${n((flat[i] as number) - radius)} ${n(flat[i + 1] as number)}a${r} ${r} 0 1 0 ${across} 0a${r} ${r} 0 1 0 -${across} 0`
    return path
  }
  return {
    boxes(flat, ink, alpha = 1) {
      let path = ''
      for (let i = 0; i < flat.length; i += 4)
        path += `M${n(flat[i] as number)} ${n(flat[i + 1] as number)}h${n(flat[i + 2] as number)}v${n(flat[i + 3] as number)}h${n(-(flat[i + 2] as number))}z`
      if (path !== '')
        parts.push(
          `<path d="${path}" fill="${inks[ink]}"${alpha < 1 ? ` fill-opacity="${alpha}"` : ''}/>`,
        )
    },
    dots(flat, radius, ink) {
      if (flat.length > 0) parts.push(`<path d="${circles(flat, radius)}" fill="${inks[ink]}"/>`)
    },
    rings(flat, radius, ink) {
      if (flat.length > 0)
        parts.push(
          `<path d="${circles(flat, radius)}" fill="none" stroke="${inks[ink]}" stroke-width="1.5"/>`,
        )
    },
    failures(flat, size) {
      let path = ''
      for (let i = 0; i < flat.length; i += 2)
        path += `M${n((flat[i] as number) - size / 2)} ${n((flat[i + 1] as number) - size / 2)}h${n(size)}v${n(size)}h${n(-size)}z`
      if (path !== '')
        parts.push(
          size >= 6
            ? `<path d="${path}" fill="url(#failed)" stroke="${inks.bad}"/>`
            : `<path d="${path}" fill="${inks.bad}"/>`,
        )
    },
    lines(flat, ink, look = {}) {
      let path = ''
      for (let i = 0; i < flat.length; i += 4)
        path += `M${n(flat[i] as number)} ${n(flat[i + 1] as number)}L${n(flat[i + 2] as number)} ${n(flat[i + 3] as number)}`
      if (path !== '')
        parts.push(
          `<path d="${path}" stroke="${inks[ink]}" stroke-width="${look.width ?? 1}"${look.dash ? ' stroke-dasharray="3 3"' : ''} fill="none"/>`,
        )
    },
    text(x, y, text, { ink, sizePx = 11, align = 'start', mono, bold }) {
      parts.push(
        `<text x="${n(x)}" y="${n(y)}" dy="0.35em" font-size="${sizePx}" font-family="${mono ? FONTS.mono : FONTS.sans}"${bold ? ' font-weight="600"' : ''} text-anchor="${align}" fill="${inks[ink]}">${escaped(text)}</text>`,
      )
    },
    clipped(box, draw) {
      const id = `clip-${++clips}`
      parts.push(
        `<clipPath id="${id}"><rect x="${n(box.x)}" y="${n(box.y)}" width="${n(box.width)}" height="${n(box.height)}"/></clipPath><g clip-path="url(#${id})">`,
      )
      draw()
      parts.push('</g>')
    },
    finish() {
      return [
        `<svg xmlns="http://www.w3.org/2000/svg" width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}" role="img">`,
        `<title>${escaped(about.title)}</title><desc>${escaped(about.description)}</desc>`,
        `<defs><pattern id="failed" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="4" height="4" fill="${inks.surface}"/><rect width="1.5" height="4" fill="${inks.bad}"/></pattern></defs>`,
        `<rect width="100%" height="100%" fill="${inks.surface}"/>`,
        ...parts,
        '</svg>\n',
      ].join('\n')
    },
  }
}
