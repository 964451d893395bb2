import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config.ts'
import { RewardOpsError } from '../errors.ts'
import { withFirstOverview } from '../http/first-overview.ts'
import type { Handler } from '../http/listener.ts'
import { packAnswer } from '../http/packed-answer.ts'
import { replacedIn, replaceInAnswer } from '../http/replaced-answer.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { createStaticFiles, STATIC_PATH } from '../http/static-files.ts'
import type { Logger } from '../log.ts'
import type { Front } from './front.ts'
import type { ServerModules } from './modules.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Content types for which Next's responses are compressed: documents, data for client-side navigation and the icon. */
const PACKED = /^(text\/|application\/json|image\/svg)/

/** Prepares Next for the pages. Returns null if pages are disabled, or if they were not built, which is logged. */
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
  const built = config.dev ? config.basePath : builtBasePath()
  const bypass = config.dev ? undefined : prerenderBypass()
  const { parseAndValidateFlightRouterState } = await import(
    'next/dist/server/app-render/parse-and-validate-flight-router-state.js'
  )
  const rendered = (req: IncomingMessage, res: ServerResponse) => {
    try {
      parseAndValidateFlightRouterState(req.headers['next-router-state-tree'])
    } catch {
      // Next itself would answer with 500 and log a stack trace.
      const message = 'The header Next-Router-State-Tree cannot be read.'
      throw new RewardOpsError('invalid_input', message, {
        hint: 'Reload the page in the browser.',
      })
    }
    // Documents do not depend on the caller's cookies, so the header can be replaced.
    if (req.headers.rsc === undefined) req.headers.cookie = bypass
    // Next expects the path prefix of its build, without a trailing slash for the first page.
    req.url = built + (req.url ?? '/').replace(/^\/(?=\?|$)/, built === '' ? '/' : '')
    return handle(req, res)
  }
  const render = withFirstOverview(rendered, { overview, servers, access, log })
  // In development, Next alone serves the pages, because their files change at any time.
  if (config.dev) {
    return (req, res) => {
      setPagePolicy(req, res, true)
      return render(req, res)
    }
  }
  const statics = await createStaticFiles(join(ROOT, '.next/static'), (plain) =>
    replacedIn(plain, built, config.basePath),
  )
  return async (req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] as string
    if (path.startsWith(STATIC_PATH) && (await statics(path, req, res))) return
    setPagePolicy(req, res, false)
    packAnswer(req, res, PACKED)
    replaceInAnswer(res, built, config.basePath)
    await render(req, res)
  }
}

/**
 * Sets the content security policy of a page with a new nonce. Next reads the nonce from the same header of the request
 * and adds it to all scripts of the document. Client-side navigation loads no document, so it needs no nonce, and a
 * nonce must not get into Next's cache.
 */
function setPagePolicy(req: IncomingMessage, res: ServerResponse, dev: boolean): void {
  const policy = pagePolicy(randomBytes(16).toString('base64'), dev)
  // Removes the default `no-store`, because Next sets cache-control for every page.
  res.removeHeader('cache-control')
  res.setHeader('content-security-policy', policy)
  delete req.headers['content-security-policy']
  delete req.headers['content-security-policy-report-only']
  if (req.headers.rsc === undefined) req.headers['content-security-policy'] = policy
}

/**
 * The cookie of Next's draft mode. With it, Next renders a document instead of sending its prerendered copy, whose
 * scripts have no nonce. Rendering takes a few milliseconds. Client-side navigation still uses the copies, which the
 * browser prefetches and keeps.
 */
function prerenderBypass(): string {
  const manifest = JSON.parse(readFileSync(join(ROOT, '.next/prerender-manifest.json'), 'utf8'))
  return `__prerender_bypass=${manifest.preview.previewModeId}`
}

/** The placeholder in the build that REWARDOPS_BASE_PATH replaces (next.config.ts). */
function builtBasePath(): string {
  return JSON.parse(readFileSync(join(ROOT, '.next/routes-manifest.json'), 'utf8')).basePath
}
