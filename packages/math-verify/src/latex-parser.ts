import type { Budget } from './budget.ts'
import { isTextStyle, NotReadable, type Token, tokensOf } from './lexer.ts'
import * as rational from './rational.ts'
import { isCollection, isRelation, type Node, negated, type RelationOp, whole } from './tree.ts'

/** Maximum length of an answer, in characters. The longest of 500 MATH answers has 159. */
export const MAX_ANSWER_LENGTH = 2_000

/** Maximum nesting of groups. Each level takes about seven stack frames. */
const MAX_NESTING = 64

const relations: Record<string, RelationOp> = {
  '=': '=',
  '==': '=',
  '<': '<',
  '\\lt': '<',
  '<=': '≤',
  '\\le': '≤',
  '\\leq': '≤',
  '\\leqslant': '≤',
  '>': '>',
  '\\gt': '>',
  '>=': '≥',
  '\\ge': '≥',
  '\\geq': '≥',
  '\\geqslant': '≥',
  '!=': '≠',
  '\\ne': '≠',
  '\\neq': '≠',
}

/** Functions of one argument, which need no parentheses. */
const functions = new Set(
  (
    'sin cos tan csc sec cot arcsin arccos arctan arccsc arcsec arccot sinh cosh tanh arsinh arcosh artanh ' +
    'arcsinh arccosh arctanh log ln exp det'
  ).split(' '),
)

/** Letters that are functions before a parenthesis: `f(2)`. Other letters are factors: `x(x+1)`. */
const functionLetters = new Set(['f', 'g', 'h', 'p', 'q'])

const greek = new Set(
  (
    'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi omicron rho ' +
    'varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon ' +
    'Phi Psi Omega ell hbar imath jmath nabla partial angle measuredangle triangle square star circ bullet ' +
    'prime aleph Re Im wp degree'
  ).split(' '),
)

const numberSets: Record<string, Extract<Node, { kind: 'numberSet' }>['name']> = {
  N: 'naturals',
  Z: 'integers',
  Q: 'rationals',
  R: 'reals',
  C: 'complexes',
}

const emptySet: Node = { kind: 'set', parts: [] }

/**
 * Parses one LaTeX answer: a number, an expression, a set, a tuple, an interval, an equation …
 * @throws NotReadable, TooLarge, OutOfBudget
 */
export function parseLatex(latex: string, budget: Budget): Node {
  if (latex.length > MAX_ANSWER_LENGTH) {
    throw new rational.TooLarge(`an answer of ${latex.length} characters`)
  }
  return new Parser(tokensOf(withoutSeparators(latex)), budget).answer()
}

/** Thousands separators at the end of an answer: `1,000`, `x = 1,000`. In a set or tuple a comma separates elements. */
const groupedNumber = /(?:^|=|\\approx)\s*-?\d{1,3}(?:,\d{3})+(?:\.\d+)?\s*$/

function withoutSeparators(latex: string): string {
  const match = groupedNumber.exec(latex)
  if (!match || latex.slice(0, match.index).includes(',')) return latex
  const number = match[0]
  // `0,111` has a decimal comma.
  const isFraction = /^\D*0,\d{3}\s*$/.test(number)
  return latex.slice(0, match.index) + number.replaceAll(',', isFraction ? '.' : '')
}

class Parser {
  private readonly tokens: Token[]
  private readonly budget: Budget
  private at = 0
  private nesting = 0
  /** Number of open absolute values (`|…|`). While one is open, the next bar closes it. */
  private bars = 0

  constructor(tokens: Token[], budget: Budget) {
    this.tokens = tokens
    this.budget = budget
  }

  answer(): Node {
    // Punctuation at the end belongs to the surrounding sentence.
    while (this.tokens.length > 1 && /^[.,;]$/.test(this.tokens.at(-1)!.text)) this.tokens.pop()
    if (this.tokens.length === 0) throw new NotReadable('nothing')
    const rows = this.elementRows()
    if (this.at < this.tokens.length) this.fail()
    return asSetOrOne(rows)
  }

  private fail(): never {
    const token = this.tokens[this.at]
    throw new NotReadable(token ? `an unexpected ${JSON.stringify(token.text)}` : 'its end')
  }

  private peek(ahead = 0): Token | undefined {
    return this.tokens[this.at + ahead]
  }

  private isNext(text: string, ahead = 0): boolean {
    const token = this.tokens[this.at + ahead]
    return token !== undefined && token.text === text && token.type !== 'styled'
  }

  private accept(...texts: string[]): boolean {
    if (!texts.some((text) => this.isNext(text))) return false
    this.at++
    return true
  }

  private expect(...texts: string[]): void {
    if (!this.accept(...texts)) this.fail()
  }

  private nested<T>(read: () => T): T {
    if (++this.nesting > MAX_NESTING) throw new rational.TooLarge('groups within groups')
    const result = read()
    this.nesting--
    return result
  }

  /** `a, b; c, d` as [[a, b], [c, d]]; an element with ± becomes two. */
  private elementRows(): Node[][] {
    const rows: Node[][] = []
    do {
      const row: Node[] = []
      do {
        this.budget.step()
        row.push(...this.element())
      } while (this.accept(','))
      rows.push(assignedTogether(row))
    } while (this.accept(';'))
    return rows
  }

  private element(): Node[] {
    let left = this.signedPair()
    const links: { op: RelationOp; right: Node[] }[] = []
    for (;;) {
      const token = this.peek()
      const op = token && token.type !== 'styled' ? relations[token.text] : undefined
      if (op !== undefined) {
        this.at++
        links.push({ op, right: this.signedPair() })
      } else if (this.accept('\\approx')) {
        const right = this.signedPair()
        // In `a ≈ b` the answer is a, unless a is only a name.
        if (links.length === 0 && left.length === 1 && isName(left[0]!)) left = right
      } else if (this.accept('\\in')) {
        links.push({ op: '=', right: this.signedPair() })
      } else break
    }
    if (links.length === 0) return left
    if (left.length !== 1) this.fail()
    const parts = links.map(({ op, right }, at) => {
      const before = at === 0 ? left : links[at - 1]!.right
      return { kind: 'relation' as const, op, left: asOne(before), right: asOne(right) }
    })
    return parts.length === 1 ? parts : [{ kind: 'chain', parts }]
  }

  /** `a ± b` as its two values. */
  private signedPair(): Node[] {
    if (this.accept('\\pm', '\\mp')) {
      const value = this.sum()
      return [negated(value), value]
    }
    const left = this.setDifference()
    if (!this.accept('\\pm', '\\mp')) return [left]
    const right = this.sum()
    return [
      { kind: 'sum', parts: [left, right] },
      { kind: 'sum', parts: [left, negated(right)] },
    ]
  }

  private setDifference(): Node {
    return this.setOperations('difference', ['\\setminus', '\\backslash'], () =>
      this.setOperations('union', ['\\cup', '\\bigcup'], () =>
        this.setOperations('intersection', ['\\cap', '\\bigcap'], () => this.sum()),
      ),
    )
  }

  private setOperations(
    op: Extract<Node, { kind: 'setOperation' }>['op'],
    signs: string[],
    operand: () => Node,
  ): Node {
    let left = operand()
    while (this.accept(...signs)) {
      const right = operand()
      if (!isCollection(left) || !isCollection(right)) this.fail()
      left = { kind: 'setOperation', op, left: tupleAsSet(left), right: tupleAsSet(right) }
    }
    return left
  }

  private sum(): Node {
    const first = this.term()
    const parts = [first]
    for (;;) {
      if (this.accept('+')) parts.push(this.term())
      else if (this.accept('-')) parts.push(negated(this.term()))
      else break
    }
    if (parts.length === 1) return first
    return { kind: 'sum', parts: numbersOnly(parts) }
  }

  private term(): Node {
    let left = this.signed()
    for (;;) {
      this.budget.step()
      if (this.accept('*', '\\times', '\\cdot', '\\ast')) {
        left = product([left, this.signed()])
      } else if (this.accept('/', '\\div', ':', '\\over')) {
        left = quotient(left, this.signed())
      } else if (this.accept('\\mod', '\\bmod')) {
        left = { kind: 'call', name: 'mod', parts: numbersOnly([left, this.signed()]) }
      } else return left
    }
  }

  private signed(): Node {
    let minus = false
    for (;;) {
      if (this.accept('-')) minus = !minus
      else if (!this.accept('+')) break
      this.budget.step()
    }
    const value = this.factors(true)
    if (!minus) return value
    return negated(numbersOnly([value])[0]!)
  }

  /** Factors without a sign between them, as in `2x`. A leading `2\frac{1}{2}` or `2 1/2` is a mixed number. */
  private factors(withFunctions: boolean): Node {
    const mixed = this.mixedNumber()
    const parts = [mixed ?? this.postfixed()]
    while (this.startsFactor(withFunctions)) {
      this.budget.step()
      parts.push(this.postfixed())
    }
    return parts.length === 1 ? parts[0]! : product(parts)
  }

  private mixedNumber(): Node | null {
    const first = this.peek()
    if (first?.type !== 'number' || first.text.includes('.')) return null
    const second = this.peek(1)
    if (second?.type === 'number') {
      const isGroup = /^\d{1,3}$/.test(first.text) && /^\d{3}(\.\d+)?$/.test(second.text)
      if (isGroup) {
        // Digits in groups of three, as in `1 000` and `1\,000`.
        this.at++
        let text = first.text + second.text
        for (let more = this.peek(1); more?.type === 'number'; more = this.peek(1)) {
          if (text.includes('.') || !/^\d{3}(\.\d+)?$/.test(more.text)) this.fail()
          text += more.text
          this.at++
        }
        this.tokens[this.at] = { type: 'number', text, spaced: first.spaced }
        return null
      }
      if (!(this.isNext('/', 2) && this.peek(3)?.type === 'number')) this.fail()
      const bottom = this.peek(3)!
      this.at += 4
      return fractionAfter(first.text, second.text, bottom.text)
    }
    if (!this.isNext('\\frac', 1)) return null
    this.at++
    const fraction = this.primary()
    const isProper =
      fraction.kind === 'number' && !rational.isWhole(fraction.value) && fraction.value.n > 0n
    const number = numberNode(first.text)
    if (isProper) {
      return {
        kind: 'number',
        value: rational.add(rational.decimal(first.text), fraction.value),
        isDecimal: false,
      }
    }
    return product([number, this.powers(fraction)])
  }

  private startsFactor(withFunctions: boolean): boolean {
    const token = this.peek()
    if (token === undefined) return false
    if (token.type === 'letter' || token.type === 'styled') return true
    if (token.type === 'number') {
      // `x 2` and `2 2` are not products.
      const before = this.peek(-1)
      return before?.type !== 'letter' && before?.type !== 'number'
    }
    if (token.type === 'sign') {
      if (token.text === '|') return this.bars === 0
      return token.text === '(' || token.text === '[' || token.text === '{'
    }
    const name = token.text.slice(1)
    if (functions.has(name) || name === 'sum' || name === 'prod') return withFunctions
    return this.startsPrimaryCommand(name)
  }

  private startsPrimaryCommand(name: string): boolean {
    return (
      greek.has(name) ||
      /^(?:d?frac|tfrac|cfrac|sqrt|pi|infty|d?binom|tbinom|begin|lfloor|lceil|lvert|vert|max|min|gcd|lcm|operatorname)$/.test(
        name,
      )
    )
  }

  private postfixed(): Node {
    return this.powers(this.primary())
  }

  private powers(primary: Node): Node {
    let value = primary
    for (;;) {
      this.budget.step()
      if (this.accept('^')) {
        if (this.isDegree()) continue
        const exponent = this.argument()
        const isTransposed =
          value.kind === 'matrix' && exponent.kind === 'symbol' && exponent.name === 't'
        value = isTransposed
          ? { kind: 'call', name: 'transpose', parts: [value] }
          : { kind: 'power', base: numbersOnly([value])[0]!, exponent: numbersOnly([exponent])[0]! }
      } else if (this.accept('!')) {
        value = { kind: 'call', name: 'factorial', parts: numbersOnly([value]) }
      } else if (this.accept('%')) {
        value = percentOf(numbersOnly([value])[0]!)
      } else if (this.accept('\\degree', '\\circ')) {
        // The degree sign is ignored.
      } else if (this.accept("'", '\\prime')) {
        if (value.kind !== 'symbol') this.fail()
        value = { kind: 'symbol', name: `${value.name}'` }
      } else return value
    }
  }

  private isDegree(): boolean {
    if (this.accept('\\circ', '\\degree')) return true
    const isBraced =
      this.isNext('{') &&
      (this.isNext('\\circ', 1) || this.isNext('\\degree', 1)) &&
      this.isNext('}', 2)
    if (isBraced) this.at += 3
    return isBraced
  }

  /** An argument as in TeX: a group or one token. `isDigitAlone`: only the first digit of a number, as in `\frac12`. */
  private argument(isDigitAlone = false): Node {
    if (this.accept('{')) return this.nested(() => this.closed(this.elementRows(), '}'))
    if (this.accept('-')) return negated(this.argument(isDigitAlone))
    const token = this.peek()
    if (token?.type === 'number' && isDigitAlone && token.text.length > 1) {
      if (token.text.includes('.')) this.fail()
      this.tokens[this.at] = { ...token, text: token.text.slice(1) }
      return numberNode(token.text[0]!)
    }
    return this.nested(() => this.primary())
  }

  private closed(rows: Node[][], closing: string): Node {
    this.expect(closing)
    return asSetOrOne(rows)
  }

  private primary(): Node {
    const token = this.peek()
    if (token === undefined) this.fail()
    this.at++
    switch (token.type) {
      case 'number':
        return this.numberFrom(token.text)
      case 'letter':
        return this.letterFrom(token.text)
      case 'styled':
        return this.styledFrom(token)
      case 'sign':
        return this.nested(() => this.groupFrom(token.text))
      default:
        return this.nested(() => this.commandFrom(token.text.slice(1)))
    }
  }

  private numberFrom(text: string): Node {
    // The base of `204_5` is ignored.
    if (this.accept('_')) this.subscript()
    if (this.isNext('.') && this.peek(1)?.type === 'styled' && this.peek(1)!.text === 'overline') {
      this.at++
      return repeating(`${text}.`, this.peek()!, () => this.at++)
    }
    const next = this.peek()
    if (text.includes('.') && next?.type === 'styled' && next.text === 'overline') {
      return repeating(text, next, () => this.at++)
    }
    const isScientific =
      this.isNext('E') &&
      !this.peek()!.spaced &&
      (this.peek(1)?.type === 'number' || /^[+-]$/.test(this.peek(1)?.text ?? ''))
    if (isScientific) {
      this.at++
      const minus = this.accept('-')
      if (!minus) this.accept('+')
      const digits = this.peek()
      if (digits?.type !== 'number' || digits.text.includes('.')) this.fail()
      this.at++
      const scale = rational.power(rational.whole(10), BigInt(`${minus ? '-' : ''}${digits.text}`))
      return {
        kind: 'number',
        value: rational.multiply(rational.decimal(text), scale),
        isDecimal: true,
      }
    }
    return numberNode(text)
  }

  private letterFrom(letter: string): Node {
    const name = letter.toLowerCase()
    if (this.isNext('_')) return this.withSubscript(name)
    if (functionLetters.has(name) && this.isNext('(')) {
      this.at++
      const parts = this.nested(() => this.elementRows().flat())
      this.expect(')')
      return { kind: 'call', name, parts }
    }
    if (letter === 'e') return { kind: 'constant', name: 'e' }
    if (name === 'i') return { kind: 'constant', name: 'i' }
    return { kind: 'symbol', name }
  }

  private withSubscript(name: string): Node {
    this.expect('_')
    return { kind: 'symbol', name: `${name}_${this.subscript()}` }
  }

  /** Reads a subscript as text, which becomes part of the name. */
  private subscript(): string {
    const start = this.at
    if (this.accept('{')) {
      for (let depth = 1; depth > 0; ) {
        if (this.at >= this.tokens.length) this.fail()
        if (this.accept('{')) depth++
        else if (this.accept('}')) depth--
        else this.at++
      }
      return this.tokens
        .slice(start + 1, this.at - 1)
        .map((token) => (token.type === 'styled' ? token.content : token.text))
        .join('')
        .toLowerCase()
    }
    const token = this.peek()
    if (token === undefined) this.fail()
    this.at++
    return (token.type === 'styled' ? token.content : token.text).toLowerCase()
  }

  private styledFrom(token: Extract<Token, { type: 'styled' }>): Node {
    if (token.text === 'mathbb' && Object.hasOwn(numberSets, token.content.trim())) {
      return { kind: 'numberSet', name: numberSets[token.content.trim()]! }
    }
    const content = token.content.replace(/\s+/g, '').toLowerCase()
    if (!isTextStyle(token.text)) {
      const name = `${token.text}{${content}}`
      return this.isNext('_') ? this.withSubscript(name) : { kind: 'symbol', name }
    }
    // Multiple-choice answers are written `\text{(C)}`.
    const name = content.replace(/[()]/g, '')
    if (/^\d+(\.\d+)?$/.test(name)) return numberNode(name)
    if (name === '') throw new NotReadable('an empty text')
    return this.isNext('_') ? this.withSubscript(name) : { kind: 'symbol', name }
  }

  private groupFrom(open: string): Node {
    const bars = this.bars
    if (open === '|') {
      this.bars++
      const value = this.sum()
      this.bars = bars
      this.expect('|')
      return { kind: 'call', name: 'abs', parts: numbersOnly([value]) }
    }
    if (open !== '(' && open !== '[' && open !== '{') {
      this.at--
      this.fail()
    }
    this.bars = 0
    if (open === '{') {
      if (this.accept('}')) return emptySet
      const rows = this.elementRows()
      this.bars = bars
      if (this.accept('\\choose')) {
        const lower = this.sum()
        this.expect('}')
        return { kind: 'call', name: 'binomial', parts: numbersOnly([asSetOrOne(rows), lower]) }
      }
      return this.closed(rows, '}')
    }
    const rows = this.elementRows()
    this.bars = bars
    const closing = this.peek()?.text
    this.expect(')', ']')
    const parts = rows.flat()
    if (parts.length === 1) {
      if ((open === '(') !== (closing === ')')) this.fail()
      return parts[0]!
    }
    const isInterval = rows.length === 1 && parts.length === 2
    if (isInterval) return intervalOrPair(parts, open === '(', closing === ')')
    if ((open === '(') !== (closing === ')')) this.fail()
    return { kind: 'tuple', parts }
  }

  private commandFrom(name: string): Node {
    if (functions.has(name)) return this.functionFrom(name)
    switch (name) {
      case 'frac':
      case 'dfrac':
      case 'tfrac':
      case 'cfrac': {
        const top = this.argument(true)
        return quotient(top, this.argument(true))
      }
      case 'sqrt': {
        let degree: Node = whole(2)
        if (this.accept('[')) {
          degree = this.sum()
          this.expect(']')
        }
        const base = numbersOnly([this.argument(true)])[0]!
        return { kind: 'power', base, exponent: quotient(whole(1), degree) }
      }
      case 'binom':
      case 'dbinom':
      case 'tbinom': {
        const upper = this.argument(true)
        return { kind: 'call', name: 'binomial', parts: numbersOnly([upper, this.argument(true)]) }
      }
      case 'pi':
        return { kind: 'constant', name: 'pi' }
      case 'infty':
        return { kind: 'constant', name: 'infinity' }
      case 'emptyset':
      case 'varnothing':
        return emptySet
      case '{':
      case 'lbrace': {
        if (this.accept('\\}', '\\rbrace')) return emptySet
        const parts = this.elementRows().flat()
        this.expect('\\}', '\\rbrace')
        return { kind: 'set', parts }
      }
      case 'lfloor':
      case 'lceil': {
        const value = this.sum()
        this.expect(name === 'lfloor' ? '\\rfloor' : '\\rceil')
        return {
          kind: 'call',
          name: name === 'lfloor' ? 'floor' : 'ceiling',
          parts: numbersOnly([value]),
        }
      }
      case 'lvert':
      case 'vert':
      case '|': {
        const value = this.sum()
        this.expect(name === 'lvert' ? '\\rvert' : `\\${name}`)
        return { kind: 'call', name: 'abs', parts: numbersOnly([value]) }
      }
      case 'max':
      case 'min':
      case 'gcd':
      case 'lcm': {
        this.expect('(', '\\{')
        const parts = numbersOnly(this.elementRows().flat())
        this.expect(')', '\\}')
        return { kind: 'call', name, parts }
      }
      case 'begin':
        return this.matrixFrom()
      case 'operatorname':
        return this.namedFunction()
      case 'N':
      case 'Z':
      case 'Q':
      case 'R':
      case 'C':
        return { kind: 'numberSet', name: numberSets[name]! }
    }
    if (greek.has(name)) {
      const lower = name.toLowerCase()
      return this.isNext('_') ? this.withSubscript(lower) : { kind: 'symbol', name: lower }
    }
    this.at--
    return this.fail()
  }

  /** `\sin^2 x`, `\log_2(8)`. Without parentheses the argument is the factors up to the next function. */
  private functionFrom(name: string): Node {
    let exponent: Node | null = null
    let base: Node | null = null
    for (;;) {
      if (exponent === null && this.accept('^')) exponent = numbersOnly([this.argument()])[0]!
      else if (base === null && this.accept('_')) base = numbersOnly([this.argument()])[0]!
      else break
    }
    let argument: Node
    if (this.accept('(')) {
      argument = this.closed(this.elementRows(), ')')
    } else {
      const minus = this.accept('-')
      argument = this.factors(false)
      while (this.accept('/')) argument = quotient(argument, this.factors(false))
      if (minus) argument = negated(argument)
    }
    const parts = numbersOnly([argument])
    if (name === 'log' && base !== null) parts.push(base)
    const isInverse =
      exponent?.kind === 'number' && exponent.value.n === -1n && exponent.value.d === 1n
    if (isInverse && /^(?:sin|cos|tan|csc|sec|cot|sinh|cosh|tanh)$/.test(name)) {
      return { kind: 'call', name: `arc${name}`, parts }
    }
    const call: Node = { kind: 'call', name: name.replace(/^ar(?=sinh|cosh|tanh)/, 'arc'), parts }
    return exponent === null ? call : { kind: 'power', base: call, exponent }
  }

  private namedFunction(): Node {
    this.expect('{')
    let name = ''
    while (this.peek()?.type === 'letter') {
      name += this.peek()!.text
      this.at++
    }
    this.expect('}')
    if (functions.has(name)) return this.functionFrom(name)
    if (this.accept('(')) {
      const parts = numbersOnly(this.elementRows().flat())
      this.expect(')')
      return { kind: 'call', name, parts }
    }
    return { kind: 'symbol', name: name.toLowerCase() }
  }

  private matrixFrom(): Node {
    const name = this.environmentName()
    if (!/^(?:[pbvBV]?matrix|smallmatrix|array)$/.test(name)) this.fail()
    if (name === 'array' && this.accept('{')) {
      while (!this.accept('}')) if (this.at++ >= this.tokens.length) this.fail()
    }
    const rows: Node[][] = [[]]
    for (;;) {
      this.budget.step()
      rows.at(-1)!.push(numbersOnly([this.sum()])[0]!)
      if (this.accept('&')) continue
      if (this.accept('\\\\') && !this.isNext('\\end')) {
        rows.push([])
        continue
      }
      this.expect('\\end')
      if (this.environmentName() !== name) this.fail()
      break
    }
    if (rows.some((row) => row.length !== rows[0]!.length)) this.fail()
    const matrix: Node = { kind: 'matrix', rows }
    return name === 'vmatrix' ? { kind: 'call', name: 'det', parts: [matrix] } : matrix
  }

  private environmentName(): string {
    this.expect('{')
    let name = ''
    for (let token = this.peek(); token?.type === 'letter'; token = this.peek()) {
      name += token.text
      this.at++
    }
    this.expect('}')
    return name
  }
}

function numberNode(text: string): Node {
  return { kind: 'number', value: rational.decimal(text), isDecimal: text.includes('.') }
}

function fractionAfter(count: string, top: string, bottom: string): Node {
  const fraction = rational.divide(rational.decimal(top), nonZero(rational.decimal(bottom)))
  return {
    kind: 'number',
    value: rational.add(rational.decimal(count), fraction),
    isDecimal: false,
  }
}

/** `0.1\overline{6}` is 1/6. */
function repeating(start: string, overline: Token, take: () => void): Node {
  const digits = overline.type === 'styled' ? overline.content.trim() : ''
  if (!/^\d{1,100}$/.test(digits)) throw new NotReadable('an overline that is not digits')
  take()
  const places = start.length - start.indexOf('.') - 1
  const scale = 10n ** BigInt(places)
  const period = rational.ratio(BigInt(digits), (10n ** BigInt(digits.length) - 1n) * scale)
  return {
    kind: 'number',
    value: rational.add(rational.decimal(start), period),
    isDecimal: false,
  }
}

function percentOf(value: Node): Node {
  if (value.kind !== 'number') return product([value, numberOver100])
  return { ...value, value: rational.divide(value.value, rational.whole(100)) }
}

const numberOver100: Node = {
  kind: 'number',
  value: rational.ratio(1n, 100n),
  isDecimal: false,
}

/** @throws NotReadable if a part is a set or relation */
function numbersOnly(parts: Node[]): Node[] {
  for (const part of parts) {
    if (isCollection(part) || isRelation(part)) throw new NotReadable('arithmetic with a set')
  }
  return parts
}

function product(parts: Node[]): Node {
  const flat = numbersOnly(parts).flatMap((part) => (part.kind === 'product' ? part.parts : [part]))
  return { kind: 'product', parts: flat }
}

function quotient(top: Node, bottom: Node): Node {
  numbersOnly([top, bottom])
  if (top.kind === 'number' && bottom.kind === 'number') {
    return {
      kind: 'number',
      value: rational.divide(top.value, nonZero(bottom.value)),
      isDecimal: top.isDecimal || bottom.isDecimal,
    }
  }
  return product([top, { kind: 'power', base: bottom, exponent: whole(-1) }])
}

function nonZero(value: rational.Rational): rational.Rational {
  if (value.n === 0n) throw new NotReadable('a division by zero')
  return value
}

/** `(2, 1)` cannot be an interval, so it is a pair. */
function intervalOrPair(parts: Node[], lowOpen: boolean, highOpen: boolean): Node {
  const [low, high] = parts as [Node, Node]
  if (low.kind === 'number' && high.kind === 'number') {
    const order = rational.compare(low.value, high.value)
    if (order > 0 || (order === 0 && lowOpen && highOpen)) return { kind: 'tuple', parts }
  }
  if (isCollection(low) || isCollection(high) || isRelation(low) || isRelation(high)) {
    return { kind: 'tuple', parts }
  }
  return { kind: 'interval', low, high, lowOpen, highOpen }
}

function tupleAsSet(node: Node): Node {
  return node.kind === 'tuple' ? { kind: 'set', parts: node.parts } : node
}

function asOne(parts: Node[]): Node {
  return parts.length === 1 ? parts[0]! : { kind: 'set', parts }
}

function asSetOrOne(rows: Node[][]): Node {
  if (rows.length === 1) return asOne(rows[0]!)
  if (rows.every((row) => row.length === 1)) return { kind: 'set', parts: rows.flat() }
  return { kind: 'set', parts: rows.map((parts) => ({ kind: 'tuple', parts })) }
}

/** `x = 1, 2` means that x is 1 or 2; `x = 1, y = 2` remains two equations. */
function assignedTogether(row: Node[]): Node[] {
  const [first, ...rest] = row
  if (first?.kind !== 'relation' || first.op !== '=' || !isName(first.left)) return row
  if (rest.length === 0 || rest.some(isRelation)) return row
  const values = first.right.kind === 'set' ? first.right.parts : [first.right]
  return [{ ...first, right: { kind: 'set', parts: [...values, ...rest] } }]
}

/** Returns whether the node consists of names only, like the left side of `x = 5`, `f(x) = …` or `(x, y) = (1, 2)`. */
export function isName(node: Node): boolean {
  switch (node.kind) {
    case 'symbol':
      return true
    case 'constant':
      return node.name === 'e' || node.name === 'i'
    case 'product':
    case 'tuple':
    case 'call':
      return node.parts.length > 0 && node.parts.every(isName)
    case 'interval':
      return isName(node.low) && isName(node.high)
    default:
      return false
  }
}
