const BROWSERS: readonly [name: string, version: RegExp][] = [
  // The order matters: Edge and Opera also name Chrome, and Chrome also names Safari.
  ['Edge', /Edg(?:e|A|iOS)?\/(\d+)/],
  ['Opera', /OPR\/(\d+)/],
  ['Firefox', /(?:Firefox|FxiOS)\/(\d+)/],
  ['Chrome', /(?:Chrome|CriOS)\/(\d+)/],
  ['Safari', /Version\/(\d+).* Safari\//],
]
const SYSTEMS: readonly [name: string, pattern: RegExp][] = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
]

/**
 * A browser by its User-Agent header, such as `Firefox 140 on Linux`; otherwise the first 40 characters of the header.
 */
export function browserName(userAgent: string): string {
  for (const [name, version] of BROWSERS) {
    const found = version.exec(userAgent)
    if (found === null) continue
    const system = SYSTEMS.find(([, pattern]) => pattern.test(userAgent))
    return `${name} ${found[1]}${system === undefined ? '' : ` on ${system[0]}`}`
  }
  return userAgent === '' ? 'Unknown' : userAgent.slice(0, 40)
}
