/** The redirect target after signing in: a path of this service, never another site. */
export function nextPath(requested: string | null): string {
  if (requested === null || !requested.startsWith('/')) return '/'
  try {
    const url = new URL(requested, 'http://here.invalid')
    return url.host === 'here.invalid' ? url.pathname + url.search : '/'
  } catch {
    return '/'
  }
}
