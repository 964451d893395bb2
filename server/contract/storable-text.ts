/** True if Postgres can store the text, because it contains neither NUL nor lone surrogates. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\u0000')
}

/** Replaces NUL and lone surrogates with U+FFFD, as the SQL function `readable_json` does. */
export function readableText(text: string): string {
  return text.toWellFormed().replaceAll('\u0000', '\ufffd')
}
