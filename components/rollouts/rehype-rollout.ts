import type { Element, ElementContent, Root, Text } from 'hast'
import { partitionPoint } from '../charts/partition-point.ts'
import { textParts } from '../format/text.ts'
import type { Formula, MarkdownSource } from './markdown-source.ts'
import { type MarkLook, markedRuns, marksIn, type TextMark } from './text-marks.ts'

export interface CodeData {
  rolloutCode?: { text: string; marks: TextMark[] }
}

export interface MarkData {
  rolloutMark?: MarkLook
}

/** Maximum nesting of braces. A formula with deeper nesting is shown as its source. */
const MAX_BRACES = 40
const MAX_FORMULA_CHARS = 4_000
/** Maximum number of formulas typeset per chunk. Further formulas are shown as their source. */
const MAX_FORMULAS = 200

/**
 * Puts formulas and literal signs back into a tree, highlights ranges of the source, and names invisible characters.
 * Positions in the tree are positions in the source.
 */
export function rehypeRollout(options: {
  source: string
  prepared: MarkdownSource
  marks: readonly TextMark[]
}) {
  return (tree: Root) => {
    const pass = new Pass(options)
    pass.children(tree, false)
  }
}

class Pass {
  readonly #source: string
  readonly #prepared: MarkdownSource
  readonly #marks: readonly TextMark[]
  readonly #formulaAt: Map<number, Formula>
  #next = 0
  #typeset = 0

  constructor(of: { source: string; prepared: MarkdownSource; marks: readonly TextMark[] }) {
    this.#source = of.source
    this.#prepared = of.prepared
    this.#marks = of.marks
    this.#formulaAt = new Map(of.prepared.formulas.map((formula) => [formula.start, formula]))
  }

  children(parent: Root | Element, inCode: boolean): void {
    const out: ElementContent[] = []
    let endsLine = false
    for (const child of parent.children) {
      if (child.type === 'element') {
        this.#element(child, inCode)
        out.push(child)
        endsLine = child.tagName === 'br'
        continue
      }
      if (child.type !== 'text') continue
      for (const part of this.#text(child, inCode)) {
        // A line end is drawn as a line break. A line end after <br> or a displayed formula would be a second break.
        if (endsLine && part.type === 'text') part.value = part.value.replace(/^[ \t]*\n/, '')
        const { dataMath, dataBody } = part.type === 'element' ? part.properties : {}
        endsLine = dataMath === 'display' && dataBody !== undefined
        out.push(part)
      }
    }
    parent.children = out
  }

  #element(element: Element, inCode: boolean): void {
    if (element.tagName === 'pre') {
      this.#codeBlock(element)
      return
    }
    this.children(element, inCode || element.tagName === 'code')
  }

  /** Code is drawn by its component, with marks relative to the code. */
  #codeBlock(pre: Element): void {
    const code = pre.children[0]
    if (code?.type !== 'element') return
    const first = code.children[0]
    const value = first?.type === 'text' ? first.value : ''
    const text = this.#restored(value)
    const start = pre.position?.start.offset ?? 0
    const end = pre.position?.end.offset ?? this.#source.length
    const at = this.#source.indexOf(text.replace(/\n$/, ''), start)
    const marks =
      at >= 0 && at < end
        ? marksIn(this.#marks, at, at + text.length)
        : inexact(text, this.#source, marksIn(this.#marks, start, end), start)
    code.children = [{ type: 'text', value: text }]
    const data: CodeData = { rolloutCode: { text, marks } }
    pre.data = { ...pre.data, ...data } as Element['data']
  }

  #text(node: Text, inCode: boolean): ElementContent[] {
    const { value } = node
    const start = node.position?.start.offset
    const end = node.position?.end.offset
    const at = this.#aligned(value, start, end)
    const out: ElementContent[] = []
    const formulaChar = this.#prepared.formulaChar
    for (let i = 0; i < value.length; ) {
      if (value[i] === formulaChar) {
        let n = 1
        while (value[i + n] === formulaChar) n++
        out.push(...this.#formulas(n, at?.[i], inCode))
        i += n
        continue
      }
      let j = i + 1
      while (j < value.length && value[j] !== formulaChar) j++
      out.push(...this.#marked(value.slice(i, j), at?.slice(i, j), start, end))
      i = j
    }
    return out
  }

  /**
   * The position in the source of each character of a text. Null if positions are unknown, for example because of
   * `&amp;`.
   */
  #aligned(value: string, start: number | undefined, end: number | undefined): number[] | null {
    if (start === undefined || end === undefined) return null
    const source = this.#prepared.text
    const at: number[] = []
    let j = start
    for (let i = 0; i < value.length; i++) {
      // Markdown drops escapes, indentation, block quote markers, and the backticks of inline code.
      while (j < end && source[j] !== value[i] && /[\\\s>`]/.test(source[j] as string)) j++
      if (j >= end || source[j] !== value[i]) return null
      at.push(j++)
    }
    return at
  }

  #formulas(length: number, at: number | undefined, inCode: boolean): ElementContent[] {
    const out: ElementContent[] = []
    for (let left = length; left > 0; ) {
      const found = at === undefined ? undefined : this.#formulaAt.get(at)
      const formula = found ?? this.#prepared.formulas[this.#next]
      if (formula === undefined) throw new Error('a formula is missing')
      this.#next = this.#prepared.formulas.indexOf(formula) + 1
      const size = formula.end - formula.start
      if (size > left) throw new Error('a formula is cut')
      out.push(this.#formula(formula, inCode))
      left -= size
      if (at !== undefined) at += size
    }
    return out
  }

  #formula(formula: Formula, inCode: boolean): ElementContent {
    const { start, end, body, isDisplay } = formula
    const source = this.#source.slice(start, end)
    if (inCode) return { type: 'text', value: source }
    const kind = marksIn(this.#marks, start, end).sort(byRank)[0]?.kind
    const isTypeset = ++this.#typeset <= MAX_FORMULAS && canTypeset(body)
    return {
      type: 'element',
      tagName: 'rollout-math',
      properties: {
        dataMath: isDisplay ? 'display' : 'inline',
        dataSource: source,
        ...(isTypeset ? { dataBody: body } : {}),
        ...(kind === undefined ? {} : { dataMark: kind }),
      },
      // The source is shown if the formula is not typeset.
      children: named(source),
    }
  }

  #marked(
    value: string,
    at: number[] | undefined,
    start: number | undefined,
    end: number | undefined,
  ): ElementContent[] {
    const text = this.#restored(value)
    if (this.#marks.length === 0 || start === undefined || end === undefined) return named(text)
    const first = at?.[0]
    const marks =
      at === undefined || first === undefined
        ? inexact(text, this.#source, marksIn(this.#marks, start, end), start)
        : placed(marksIn(this.#marks, first, (at.at(-1) as number) + 1), at, first)
    return markedRuns(text.length, marks).flatMap((run): ElementContent[] => {
      const inside = named(text.slice(run.start, run.end))
      if (run.mark === null) return inside
      const data: MarkData = { rolloutMark: run.mark }
      const element = { type: 'element', tagName: 'mark', properties: {} } as const
      return [{ ...element, data: data as Element['data'] & object, children: inside }]
    })
  }

  #restored(value: string): string {
    const { literals, formulaChar, formulas } = this.#prepared
    let text = ''
    for (let i = 0; i < value.length; i++) {
      const char = value[i] as string
      if (char === formulaChar) {
        const formula = formulas[this.#next++]
        if (formula === undefined) throw new Error('a formula is missing')
        text += this.#source.slice(formula.start, formula.end)
        i += formula.end - formula.start - 1
      } else text += literals.get(char) ?? char
    }
    return text
  }
}

/** Converts marks of a source to marks of a text. `at` has the position in the source of each character of the text. */
function placed(marks: TextMark[], at: number[], first: number): TextMark[] {
  return marks.flatMap((mark) => {
    const from = firstFrom(at, first + mark.start)
    return from === at.length
      ? []
      : [{ ...mark, start: from, end: firstFrom(at, first + mark.end) }]
  })
}

function firstFrom(ascending: readonly number[], least: number): number {
  return partitionPoint(ascending.length, (index) => (ascending[index] as number) < least)
}

/** If positions are unknown, a mark covers the last occurrence of its characters in the text, if there is one. */
function inexact(text: string, source: string, marks: TextMark[], start: number): TextMark[] {
  return marks.flatMap((mark) => {
    // The characters of a token may occur anywhere, so a token without a position gets no mark.
    if (mark.kind === 'token') return []
    const needle = source.slice(start + mark.start, start + mark.end)
    const at = text.lastIndexOf(needle)
    return at < 0 ? [] : [{ ...mark, start: at, end: at + needle.length }]
  })
}

function byRank(a: TextMark, b: TextMark): number {
  return Number(b.kind === 'answer') - Number(a.kind === 'answer')
}

function named(text: string): ElementContent[] {
  return textParts(text).map((part) =>
    'text' in part
      ? { type: 'text', value: part.text }
      : {
          ...{ type: 'element', tagName: 'rollout-char' },
          properties: { title: part.title },
          children: [{ type: 'text', value: part.mark }],
        },
  ) as ElementContent[]
}

/** A length that could move content far outside the formula. KaTeX limits only positive lengths. */
const LONG_LENGTH = /\d{3,}(?:\.\d*)?\s*(?:em|ex|pt|mu|px|pc|cm|mm|in|bp|dd|cc|sp)\b/

/** Commands that KaTeX refuses. KaTeX would show their names without their arguments. */
const REFUSED_COMMAND = /\\(?:href|url|includegraphics|html[A-Z])/

function canTypeset(body: string): boolean {
  if (LONG_LENGTH.test(body) || REFUSED_COMMAND.test(body)) return false
  if (body.length > MAX_FORMULA_CHARS || textParts(body).some((part) => 'mark' in part))
    return false
  let depth = 0
  for (const char of body) {
    if (char === '{') depth++
    else if (char === '}') depth--
    if (depth > MAX_BRACES) return false
  }
  return true
}
