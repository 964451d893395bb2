/**
 * Finds numbers and arithmetic in plain text, such as `1,234.5`, `12 %` or `3/4`, at the start of the text or after a
 * space or an equals sign. A currency sign may precede a number.
 */

/** A number or arithmetic, with the space before it. */
export interface PlainMatch {
  start: number
  end: number
  /** The number without separators; null for arithmetic. */
  number: string | null
  /** The arithmetic as written; null for a number. */
  arithmetic: string | null
  isPercent: boolean
}

const currency = '$€£¥₹₽₪₩₫฿₡₢₣₤₥₦₧₨₭₮₯₰₱₲₳₴₵₶₷₸₺₻₼₾₿'
const number = /(-?[1-9]\d{0,2}(?:[ ,]\d{3})+)(\.\d+)?|(-?\d+)([.,]\d+)|(\.\d+)|(-?\d+)/y
const percent = /\s{0,20}(?:%|[Pp]ercent|[Pp]ct)/y
const head = /-?\(?-?\d/y
const operators = '+-*×/^()÷'

export class PlainNumbers {
  private readonly text: string
  /** The last run of arithmetic characters that was read, reused for every start position inside it. */
  private stretch = { from: 0, to: 0, end: 0, lastOperator: -1 }

  constructor(text: string) {
    this.text = text
  }

  /** The arithmetic expression after the space or equals sign at index `at` (-1 for the start of the text), or null. */
  arithmeticAt(at: number): PlainMatch | null {
    const from = this.afterStars(at + 1)
    head.lastIndex = from
    const first = head.exec(this.text)
    if (!first) return null
    const digit = from + first[0].length - 1
    const { end, lastOperator } = this.stretchAt(from)
    if (lastOperator <= digit || end <= from) return null
    const isAtEnd = end === this.text.length
    return {
      start: Math.max(at, 0),
      end: isAtEnd ? end : end + 1,
      number: null,
      arithmetic: this.text.slice(from, end).replaceAll('\n', ' '),
      isPercent: false,
    }
  }

  numberAt(at: number): PlainMatch | null {
    let from = this.afterStars(at + 1)
    if (currency.includes(this.text[from] ?? ' ')) from++
    number.lastIndex = from
    const match = number.exec(this.text)
    if (!match) return null
    const end = from + match[0].length
    percent.lastIndex = end
    const sign = percent.exec(this.text)
    const digits = (match[1] ?? match[3] ?? match[6] ?? '').replaceAll(/[ ,]/g, '')
    const decimals = (match[2] ?? match[4] ?? match[5] ?? '').replace(',', '.')
    return {
      start: Math.max(at, 0),
      end: end + (sign?.[0].length ?? 0),
      number: digits + decimals,
      arithmetic: null,
      isPercent: sign !== null,
    }
  }

  at(at: number): PlainMatch | null {
    if (at >= 0 && !/[\s=]/.test(this.text[at] ?? 'x')) return null
    return this.arithmeticAt(at) ?? this.numberAt(at)
  }

  *all(kind: 'arithmetic' | 'number'): Generator<PlainMatch> {
    for (let at = -1; at < this.text.length; ) {
      const match = kind === 'arithmetic' ? this.arithmeticAt(at) : this.numberAt(at)
      if (match) yield match
      anchors.lastIndex = match ? match.end : at + 1
      const next = anchors.exec(this.text)
      if (!next) return
      at = next.index
    }
  }

  private afterStars(at: number): number {
    return this.text.startsWith('**', at) ? at + 2 : at
  }

  private stretchAt(from: number): { end: number; lastOperator: number } {
    const { text } = this
    if (from >= this.stretch.from && from < this.stretch.to) return this.stretch
    let to = from
    let lastStop = -1
    while (to < text.length && isArithmetic(text[to]!)) {
      if (text[to] === '.' || text[to] === ')' || isSpace(text[to]!)) lastStop = to
      to++
    }
    const isWhole = to === text.length || ',:$'.includes(text[to]!)
    const end = isWhole ? to : lastStop
    let lastOperator = end - 2
    while (lastOperator >= from && !operators.includes(text[lastOperator]!)) lastOperator--
    this.stretch = { from, to, end, lastOperator }
    return this.stretch
  }
}

/** Matches separators except before letters and spaces, because most spaces of a text precede words. */
const anchors = /[\s=](?=[^\sA-Za-z=])/g

function isArithmetic(char: string): boolean {
  return (char >= '0' && char <= '9') || char === '.' || operators.includes(char) || isSpace(char)
}

function isSpace(char: string): boolean {
  return char === ' ' || char === '\n' || char === '\t' || char === '\r' || char === '\u00a0'
}
