import { ERROR_REASONS } from '../contract/error-reasons.ts'
import { hostRefusal } from './egress.ts'
import type { ProbeCause, ProbeFailure } from './engine.ts'

export interface ServerUrl {
  ok: true
  /** The normalized URL, without a trailing slash, as stored and shown. */
  url: string
  origin: string
  /** Path without a trailing slash; `''` for the root. */
  basePath: string
}

const MAX_URL_CHARS = 2048

/**
 * Checks a server's URL without network access. It must be http or https, without credentials, query or fragment. Its
 * host must not be an IP address that REWARDOPS_EGRESS_ALLOW refuses, in any notation (`new URL` turns decimal, octal
 * and hex into dotted form). The addresses of a host name are checked when a connection is opened.
 */
export function checkServerUrl(text: string): ServerUrl | ProbeFailure {
  if (text.length > MAX_URL_CHARS) return refused('malformed', 'the URL is too long')
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return refused(
      'malformed',
      /^https?:\/\//i.test(text)
        ? 'this is not a URL: its host or port is missing or wrong'
        : 'this is not a URL; begin it with http:// or https://',
    )
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return refused('scheme', `"${url.protocol}" URLs are refused; use http:// or https://`)
  }
  if (url.username !== '' || url.password !== '') {
    return refused('credentials', 'credentials in the URL are refused; give the key as apiKey')
  }
  if (url.search !== '' || url.hash !== '') {
    return refused('malformed', 'the URL has a query or a fragment; give scheme, host and path')
  }
  const refusal = hostRefusal(url.hostname)
  if (refusal !== null) return refused('forbidden_address', `${url.hostname} is ${refusal}`)
  const basePath = url.pathname.replace(/\/+$/, '')
  return { ok: true, url: `${url.origin}${basePath}`, origin: url.origin, basePath }
}

/**
 * Returns the root of a server's routes. A URL that ends in /v1 means the same server, because /classify, /version
 * and other routes are next to /v1, not under it.
 */
export function rootOf(basePath: string | undefined): string {
  if (basePath === undefined || basePath === '') return ''
  return basePath.endsWith('/v1') ? basePath.slice(0, -3) : basePath
}

function refused(cause: ProbeCause, message: string): ProbeFailure {
  return {
    ok: false,
    reason: 'forbidden_url',
    cause,
    message,
    hint: ERROR_REASONS.forbidden_url.hint,
  }
}
