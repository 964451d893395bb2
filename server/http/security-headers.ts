import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { THEME_SCRIPT } from '../contract/theme-script.ts'

const DATA_POLICY =
  "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export const ANSWER_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': DATA_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

export const RAW_ANSWER_HEADERS: readonly string[] = Object.entries(ANSWER_HEADERS).flat()

const STRICT_TRANSPORT_SECURITY = 'max-age=31536000'

export function setAnswerHeaders(res: ServerResponse): void {
  for (const name in ANSWER_HEADERS) res.setHeader(name, ANSWER_HEADERS[name] as string)
}

/**
 * Tells browsers to use only TLS from now on. The header is sent only over TLS, because browsers ignore it elsewhere,
 * and not for localhost, because it applies to all ports of a host and thus to other programs on localhost.
 */
export function setStrictTransport(res: ServerResponse): void {
  res.setHeader('strict-transport-security', STRICT_TRANSPORT_SECURITY)
}

const themeDigest = createHash('sha256').update(THEME_SCRIPT).digest('base64')

/**
 * The policy of a page whose scripts carry a nonce.
 *
 * - `strict-dynamic` lets these scripts load the other files of the build. Inline scripts without the nonce and inline
 *   event handlers do not run.
 * - Style elements need the nonce. Style attributes are allowed, because React writes them into the HTML of a page.
 * - Images may be `data:` URLs, because rollouts contain such images.
 * - In development, React and the hot reload evaluate code and add style elements.
 */
export function pagePolicy(nonce: string, dev: boolean): string {
  const nonced = `'nonce-${nonce}'`
  return [
    "default-src 'self'",
    `script-src ${nonced} 'strict-dynamic' 'sha256-${themeDigest}'${dev ? " 'unsafe-eval'" : ''}`,
    `style-src 'self' ${dev ? "'unsafe-inline'" : nonced}`,
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
}
