/** A variable that is a word of its own, outside quotes. */
const VARIABLE = /^\$(?:\w+|\{\w+\})$/
const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }

/**
 * Splits a line into words as a shell does, without their quotes. Each part outside single quotes is passed to
 * `expand`, which replaces variables. `$(…)`, `${…}` and, in the value of `key=value`, `[…]` and `{…}` are parts of one
 * word, even if they contain spaces. If a variable is a whole word, its value is split into words too. A quote that is
 * never closed separates words. A comment ends the line.
 */
export function shellWords(line: string, expand: (text: string) => string): string[] {
  const words: string[] = []
  let at = 0
  let word: string | null = null
  /** The part of the word that is not expanded yet. */
  let pending = ''
  /** Whether the word has a `=`. */
  let isSetting = false
  /**
   * Quotes and brackets whose end was not found. The search for their end is not repeated, so that splitting takes
   * linear time.
   */
  const unbalanced = new Set<string>()
  const endOf = (char: string, find: () => number) => {
    const end = unbalanced.has(char) ? -1 : find()
    if (end < 0) unbalanced.add(char)
    return end
  }
  const add = (literal: string) => {
    word = (word ?? '') + expand(pending) + literal
    pending = ''
  }
  const finish = () => {
    if (word === null && VARIABLE.test(pending)) {
      const value = expand(pending)
      // An unknown variable stays as it is.
      words.push(...(VARIABLE.test(value) ? [value] : shellWords(value, (text) => text)))
      pending = ''
    }
    if (pending !== '') add('')
    if (word !== null) words.push(word)
    word = null
    isSetting = false
  }
  while (at < line.length) {
    const char = line[at] as string
    const isStart = word === null && pending === ''
    if (/\s/.test(char)) {
      finish()
      at++
    } else if (char === '#' && isStart) {
      break
    } else if (char === '\\') {
      if (at + 1 < line.length) add(line[at + 1] as string)
      at += 2
    } else if (char === "'" || char === '"') {
      const end = endOf(char, () => endOfQuote(line, at))
      if (end < 0) {
        finish()
        at++
        continue
      }
      const quoted = line.slice(at + 1, end - 1)
      isSetting ||= quoted.includes('=')
      if (char === "'") add(quoted)
      else {
        for (const part of quoted.split(/(\\[$`"\\])/)) {
          if (/^\\[$`"\\]$/.test(part)) add(part.slice(1))
          else pending += part
        }
        add('')
      }
      at = end
    } else {
      const isBracket =
        (char === '$' && /[({]/.test(line[at + 1] ?? '')) || (isSetting && /[[{]/.test(char))
      const end = isBracket
        ? endOf('bracket', () => endOfBrackets(line, at + (char === '$' ? 1 : 0)))
        : -1
      isSetting ||= char === '='
      pending += end < 0 ? char : line.slice(at, end)
      at = end < 0 ? at + 1 : end
    }
  }
  finish()
  return words
}

/** The position after the quote that begins at `at`, or −1 if it has no end. */
function endOfQuote(line: string, at: number): number {
  const quote = line[at]
  for (let i = at + 1; i < line.length; i++) {
    if (line[i] === quote) return i + 1
    if (line[i] === '\\' && quote === '"') i++
  }
  return -1
}

/** The position after the bracket that begins at `at`, or −1 if it has no end. */
function endOfBrackets(line: string, at: number): number {
  const open: (string | undefined)[] = []
  for (let i = at; i < line.length; i++) {
    const char = line[i] as string
    if (char === "'" || char === '"') {
      const end = endOfQuote(line, i)
      if (end < 0) return -1
      i = end - 1
    } else if (char in CLOSING) open.push(CLOSING[char])
    else if (/[)\]}]/.test(char)) {
      if (open.pop() !== char) return -1
      if (open.length === 0) return i + 1
    }
  }
  return -1
}
