import type { IncomingMessage, ServerResponse } from 'node:http'
import { mayBrowse } from '../api/scopes.ts'
import { failuresFor } from '../api/upstream-text.ts'
import { type FirstAnswers, firstAnswers } from '../contract/first-answers.ts'
import type { Logger } from '../log.ts'
import type { OverviewView } from '../queries/overview-view.ts'
import type { ServerView } from '../queries/server-view.ts'
import { withTimeout } from '../with-timeout.ts'
import type { Access } from './access.ts'

/** Maximum time that a page waits for its data, in ms. The browser fetches late data itself. */
const PATIENCE_MS = 300

export type RenderPage = (req: IncomingMessage, res: ServerResponse) => Promise<void>

export interface FirstOverviewSources {
  overview: Pick<OverviewView, 'get'>
  servers: Pick<ServerView, 'monitors'>
  access: Pick<Access, 'actorOf'>
  log: Logger
}

/**
 * Wraps `render` so that the overview's document contains its data, if the caller may read it. The browser then paints
 * the complete page at once. Otherwise it would paint a skeleton, which scripts fill a second later on a slow machine.
 */
export function withFirstOverview(
  render: RenderPage,
  { overview, servers, access, log }: FirstOverviewSources,
): RenderPage {
  return async (req, res) => {
    const isDocument = /^\/(\?|$)/.test(req.url ?? '/') && req.headers.rsc === undefined
    const caller = isDocument ? access.actorOf(req) : null
    const answers =
      caller !== null && mayBrowse(caller.scope) ? failuresFor(caller, await read()) : null
    return answers === null ? render(req, res) : firstAnswers().run(answers, () => render(req, res))
  }

  async function read(): Promise<FirstAnswers | null> {
    const both = Promise.all([overview.get(), servers.monitors()])
    const read = await withTimeout(both, PATIENCE_MS).catch((error: Error) => {
      log.debug({ err: error.message }, 'the overview is rendered without its data')
      return null
    })
    if (read === null) return null
    return { atMs: Date.now(), overview: read[0], monitors: read[1] }
  }
}
