/** Shortest value that is masked. Shorter values ("0", "true") are not secrets and occur in ordinary text. */
const MIN_SECRET_CHARS = 6
const MASK = '***'

/**
 * Masks secrets in a text. A server may echo its key in an error, and a process may print its command line. The
 * beginning of a secret that was cut off with `…` is masked too if it has at least six characters.
 */
export function maskSecrets(text: string, secrets: readonly (string | null | undefined)[]): string {
  let out = text
  // Longer secrets are replaced first, because a shorter one may be part of a longer one.
  const known = secrets.filter((s): s is string => typeof s === 'string')
  for (const secret of known.sort((a, b) => b.length - a.length)) {
    if (secret.length < MIN_SECRET_CHARS) continue
    out = out.replaceAll(secret, MASK)
    if (out.includes('…')) out = maskCut(out, secret)
  }
  return out
}

function maskCut(text: string, secret: string): string {
  let out = text
  for (let chars = secret.length - 1; chars >= MIN_SECRET_CHARS; chars--) {
    out = out.replaceAll(`${secret.slice(0, chars)}…`, `${MASK}…`)
  }
  return out
}
