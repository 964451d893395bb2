import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FirstAnswers, firstAnswers } from '../contract/first-answers.ts'
import type { Logger } from '../log.ts'
import type { OverviewView } from '../queries/overview-view.ts'
import type { ServerView } from '../queries/server-view.ts'
import { withTimeout } from '../with-timeout.ts'
import type { Access } from './access.ts'

/** A page is not held up for its data: without them it asks for them itself. */
const PATIENCE_MS = 300

/** Answers a request for a page. */
export type RenderPage = (req: IncomingMessage, res: ServerResponse) => Promise<void>

/** What answers the overview's first questions. */
export interface FirstOverviewSources {
  overview: Pick<OverviewView, 'get'>
  servers: Pick<ServerView, 'monitors'>
  access: Pick<Access, 'actorOf'>
  log: Logger
}

/**
 * Makes `render` answer the document of the overview with its data at hand, for somebody who may read them: the first picture
 * a browser paints is the page then, not its skeleton, which scripts would fill a second later on a slow machine. Other
 * requests, and those of the router of the pages, pass as they are.
 */
export function withFirstOverview(
  render: RenderPage,
  { overview, servers, access, log }: FirstOverviewSources,
): RenderPage {
  return async (req, res) => {
    const isDocument = /^\/(\?|$)/.test(req.url ?? '/') && req.headers.rsc === undefined
    const answers = isDocument && access.actorOf(req) !== null ? await read() : null
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
