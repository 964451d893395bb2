/** Rollout texts, which may contain any character: NUL, lone surrogates, control characters. */

type TextPart = { text: string } | { mark: string; title: string }

// C0 controls except tab, line feed and carriage return; DEL; the zero-width space and direction marks; lone
// surrogates. Joiners are not listed, because scripts and emoji need them.
const INVISIBLE_CHARS =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

const NAMES: Record<number, string> = {
  0: 'NUL',
  7: 'BEL',
  8: 'BS',
  11: 'VT',
  12: 'FF',
  27: 'ESC',
  127: 'DEL',
  8203: 'ZWSP',
  8206: 'LRM',
  8207: 'RLM',
  65279: 'BOM',
}

export function textParts(text: string): TextPart[] {
  const parts: TextPart[] = []
  let from = 0
  for (const match of text.matchAll(INVISIBLE_CHARS)) {
    if (match.index > from) parts.push({ text: text.slice(from, match.index) })
    const code = match[0].charCodeAt(0)
    const hex = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
    const surrogate = code >= 0xd800 && code <= 0xdfff
    parts.push({
      mark: NAMES[code] ?? hex,
      title: surrogate ? `lone surrogate ${hex}` : `character ${hex}`,
    })
    from = match.index + 1
  }
  if (from < text.length) parts.push({ text: text.slice(from) })
  return parts
}

/** Shortens an identifier in the middle, because both ends identify it. */
export function shortenMiddle(id: string, maxChars = 24): string {
  if (id.length <= maxChars) return id
  const head = Math.ceil((maxChars - 1) / 2)
  return `${id.slice(0, head)}…${id.slice(id.length - (maxChars - 1 - head))}`
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Formats a message as a sentence with a full stop, and with a capital letter unless it begins with a URL. */
export function sentence(text: string): string {
  const capital = /^\w+:\/\//.test(text) ? text : capitalized(text)
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`
}

/** The fold position of a long text: a line end near `maxChars` characters, never inside a surrogate pair. */
export function foldAt(text: string, maxChars: number): number {
  if (text.length <= maxChars * 1.25) return text.length
  const newline = text.lastIndexOf('\n', maxChars)
  if (newline > maxChars * 0.7) return newline
  const code = text.charCodeAt(maxChars - 1)
  return code >= 0xd800 && code <= 0xdbff ? maxChars - 1 : maxChars
}

export function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]?.trimEnd() ?? ''
}
