import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config.ts'
import { withFirstOverview } from '../http/first-overview.ts'
import type { Handler } from '../http/listener.ts'
import { createStaticFiles, STATIC_PATH } from '../http/static-files.ts'
import type { Logger } from '../log.ts'
import type { Front } from './front.ts'
import type { ServerModules } from './modules.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Prepares Next for the pages. Returns null if pages are disabled or, with a log line, were not built. */
export async function openPages(
  config: Config,
  { port, server, access }: Front,
  { overview, servers }: ServerModules,
  log: Logger,
): Promise<Handler | null> {
  if (!config.pages) return null
  if (!config.dev && !existsSync(join(ROOT, '.next/BUILD_ID'))) {
    log.warn('the pages were not built: only the API answers')
    return null
  }
  const { default: next } = await import('next')
  const app = next({
    dev: config.dev,
    dir: ROOT,
    hostname: config.host,
    port,
    httpServer: server,
  })
  await app.prepare()
  const handle = app.getRequestHandler()
  const render = withFirstOverview((req, res) => handle(req, res), {
    overview,
    servers,
    access,
    log,
  })
  // In development, Next alone serves the pages, because their files change at any time.
  if (config.dev) return render
  const statics = await createStaticFiles(join(ROOT, '.next/static'))
  return async (req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] as string
    if (path.startsWith(STATIC_PATH) && (await statics(path, req, res))) return
    await render(req, res)
  }
}
