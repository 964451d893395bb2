import type { Readable } from 'node:stream'

/**
 * Reads a stream's lines, each cut at `maxChars`, so that output without line breaks is not buffered. Lines beyond
 * `perSecond` are dropped, and the next emitted line reports their number.
 */
export function readLines(
  stream: Readable,
  { maxChars, perSecond }: { maxChars: number; perSecond: number },
  onLine: (line: string, leftOut: number) => void,
): void {
  let begun = ''
  let secondAtMs = 0
  let given = 0
  let leftOut = 0
  const give = (line: string) => {
    const now = performance.now()
    if (now - secondAtMs > 1_000) {
      secondAtMs = now
      given = 0
    }
    if (++given > perSecond) {
      leftOut++
      return
    }
    onLine(line, leftOut)
    leftOut = 0
  }
  stream.setEncoding('utf8')
  stream.on('error', () => {})
  stream.on('data', (text: string) => {
    const lines = text.split('\n')
    const last = lines.pop() as string
    for (const line of lines) {
      give((begun + line).slice(0, maxChars))
      begun = ''
    }
    begun = (begun + last).slice(0, maxChars)
  })
  stream.on('end', () => {
    if (begun !== '') give(begun)
  })
}
