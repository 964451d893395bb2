/** Shorter values are numbers and switches ("0", "true"): masking them would blot out what is not secret. */
const MIN_SECRET_CHARS = 6
const MASK = '***'

/** A text without the secrets in it: a server may echo its key in an error, a process print its command line. */
export function maskSecrets(text: string, secrets: readonly (string | null | undefined)[]): string {
  let out = text
  // The longest first: one may be part of another.
  const known = secrets.filter((s): s is string => typeof s === 'string')
  for (const secret of known.sort((a, b) => b.length - a.length)) {
    if (secret.length >= MIN_SECRET_CHARS) out = out.replaceAll(secret, MASK)
  }
  return out
}
