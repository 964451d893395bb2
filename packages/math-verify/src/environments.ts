/**
 * Finds mathematics in a text: `$…$`, `$$…$$`, `\(…\)`, `\[…\]`, `[…]` between spaces, and bare fractions of
 * numbers. Every position is read once, so 1 MB of `\[` takes as long as 1 MB of prose.
 */

/** A formula in a text. */
export interface Environment {
  start: number
  /** Position after the closing delimiter, or after a percent sign or `percent` that follows it. */
  end: number
  /** The content between the delimiters: `from` inclusive, `to` exclusive. */
  from: number
  to: number
  isPercent: boolean
}

/** Consecutive environments: `$1$, $2$ and $3$` is one answer of three parts. */
export interface EnvironmentRun {
  start: number
  end: number
  parts: Environment[]
}

const MAX_PARTS = 6

/** Matches the start of `percentage` too, so that word needs no alternative of its own. */
const percent = /\s{0,20}(?:\\?%|[Pp]ercent|[Pp]ct)/y
const link = /\s{0,20}(?:,?and|,?or|,)\s{0,20}/y
const bareFraction = /-?\\frac\{-?\d{1,400}(?:[.,]\d{1,400})?\}\{-?\d{1,400}(?:[.,]\d{1,400})?\}/y

/** Finds environments by their start position, and caches the result for each position. */
export class Environments {
  private readonly text: string
  private readonly found = new Map<number, Environment | null>()
  private readonly nexts = new Map<string, number[]>()

  constructor(text: string) {
    this.text = text
  }

  /** The environment that starts at `at`, or null. */
  at(at: number): Environment | null {
    const known = this.found.get(at)
    if (known !== undefined) return known
    const environment = this.read(at)
    this.found.set(at, environment)
    return environment
  }

  /** The run that starts at `at`. With `boxed`, only environments that contain a box count. */
  runAt(at: number, boxed: boolean): EnvironmentRun | null {
    const first = this.at(at)
    if (!first || (boxed && !this.holdsBox(first))) return null
    const parts = [first]
    let end = first.end
    while (parts.length < MAX_PARTS) {
      link.lastIndex = end
      const match = link.exec(this.text)
      if (!match) break
      const next = this.atOrBefore(end + match[0].length)
      if (!next || (boxed && !this.holdsBox(next))) break
      parts.push(next)
      end = next.end
    }
    return { start: first.start, end, parts }
  }

  /** The environment at `at`, or at the space before `at`, because a `[…]` environment begins with a space. */
  atOrBefore(at: number): Environment | null {
    const here = this.at(at)
    if (here) return here
    return this.text[at] === '[' && isSpace(this.text[at - 1]) ? this.at(at - 1) : null
  }

  /** All runs from left to right, without overlaps. */
  *runs(boxed: boolean): Generator<EnvironmentRun> {
    for (let at = this.nextStart(0); at >= 0; at = this.nextStart(at)) {
      const run = this.runAt(at, boxed)
      if (run) {
        yield run
        at = Math.max(run.end, at + 1)
      } else at++
    }
  }

  private read(at: number): Environment | null {
    const { text } = this
    const before = text[at - 1]
    if (text[at] === '$') {
      if (text[at + 1] === '$' && before !== '\\') {
        const close = this.next('$$', at + 3)
        if (close >= 0 && text[close - 1] !== '\\') {
          return this.environment(at, at + 2, close, close + 2)
        }
      }
      if (before === '\\' || isDigit(before)) return null
      let close = this.next('$', at + 1)
      const line = this.next('\n', at + 1)
      while (close >= 0 && text[close - 1] === '\\') close = this.next('$', close + 1)
      if (close <= at + 1 || (line >= 0 && line < close)) return null
      return this.environment(at, at + 1, close, close + 1)
    }
    if (text[at] === '\\' && before !== '\\') {
      const kind = text[at + 1]
      if (kind === '[') {
        const close = this.next('\\]', at + 3)
        return close < 0 || text[close - 1] === '\\'
          ? null
          : this.environment(at, at + 2, close, close + 2)
      }
      if (kind === '(') {
        const close = this.next('\\)', at + 3)
        const line = this.next('\n', at + 2)
        const isOpen = close < 0 || text[close - 1] === '\\' || (line >= 0 && line < close)
        return isOpen ? null : this.environment(at, at + 2, close, close + 2)
      }
    }
    if (isSpace(text[at]) && text[at + 1] === '[') {
      const close = this.next(']', at + 2)
      const open = this.next('[', at + 2)
      const line = this.next('\n', at + 2)
      if (close <= at + 2 || !isSpace(text[close + 1])) return null
      if ((open >= 0 && open < close) || (line >= 0 && line < close)) return null
      return this.environment(at, at + 2, close, close + 2)
    }
    bareFraction.lastIndex = at
    const fraction = bareFraction.exec(text)
    return fraction
      ? this.environment(at, at, at + fraction[0].length, at + fraction[0].length)
      : null
  }

  private holdsBox({ from, to }: Environment): boolean {
    const box = this.next('\\boxed{', from)
    if (box < 0 || box >= to) return false
    const close = this.next('}', box + 8)
    return close >= 0 && close < to
  }

  private environment(start: number, from: number, to: number, end: number): Environment {
    percent.lastIndex = end
    const match = percent.exec(this.text)
    return {
      start,
      end: end + (match?.[0].length ?? 0),
      from,
      to,
      isPercent: match !== null,
    }
  }

  private nextStart(at: number): number {
    starts.lastIndex = at
    const match = starts.exec(this.text)
    return match ? match.index : -1
  }

  /** Returns the first position of `part` from `at` on, or -1. The text is searched once per part. */
  private next(part: string, at: number): number {
    let all = this.nexts.get(part)
    if (all === undefined) {
      all = []
      for (
        let found = this.text.indexOf(part);
        found >= 0;
        found = this.text.indexOf(part, found + 1)
      ) {
        all.push(found)
      }
      this.nexts.set(part, all)
    }
    let low = 0
    let high = all.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (all[middle]! < at) low = middle + 1
      else high = middle
    }
    return all[low] ?? -1
  }
}

const starts = /\$|\\\[|\\\(|\s\[|-?\\frac\{/g

function isDigit(char: string | undefined): boolean {
  return char !== undefined && char >= '0' && char <= '9'
}

function isSpace(char: string | undefined): boolean {
  return char !== undefined && /\s/.test(char)
}
