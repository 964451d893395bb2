/**
 * First segments of the service's own paths. REWARDOPS_BASE_PATH cannot begin with any of them: if a proxy removed the
 * prefix `/runs` from `/runs/runs/x`, the service would take the remaining `/runs` for the prefix and remove it too.
 */
export const OWN_PARTS: ReadonlySet<string> = new Set([
  ...[
    '_next',
    'api',
    'compat',
    'favicon.ico',
    'healthz',
    'icon.svg',
    'livez',
    'login',
    'metrics',
    'readyz',
  ],
  ...['batches', 'compare', 'monitors', 'planner', 'rewards', 'runs', 'samples', 'servers'],
  ...['settings', 'workers'],
  ...['classify', 'detokenize', 'generate', 'pooling', 'predict', 'rerank', 'score', 'tokenize'],
  'v1',
])

/** Returns the error in a value of REWARDOPS_BASE_PATH, or null if the value is valid. */
export function basePathProblem(path: string): string | null {
  if (path === '') return null
  const parts = path.split('/').slice(1)
  const isPlain = parts.every((part) => /^[\w.~-]+$/.test(part) && !/^\.+$/.test(part))
  if (!path.startsWith('/') || !isPlain) {
    return 'expected a path such as /rewardops, without a slash at the end, of letters, digits, ".", "_", "~" and "-"'
  }
  return OWN_PARTS.has(parts[0] as string) ? `/${parts[0]} is a path of the service itself` : null
}

/**
 * Returns a request's URL without the base path. A URL that does not begin with the base path is returned unchanged,
 * because many proxies remove it, and health checks and trainers may call the service directly.
 */
export function withoutBasePath(url: string, basePath: string): string {
  if (basePath === '' || !url.startsWith(basePath)) return url
  const rest = url.slice(basePath.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}
