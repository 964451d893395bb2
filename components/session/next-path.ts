/** The redirect target after signing in: a path of this service, never another site. */
export function nextPath(asked: string | null): string {
  if (asked === null || !asked.startsWith('/')) return '/'
  try {
    const url = new URL(asked, 'http://here.invalid')
    return url.host === 'here.invalid' ? url.pathname + url.search : '/'
  } catch {
    return '/'
  }
}
