import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { firstAnswers } from '../contract/first-answers.ts'
import type { OverviewDto } from '../contract/pages.ts'
import { createLogger } from '../log.ts'
import { withFirstOverview } from './first-overview.ts'

const OVERVIEW = { empty: true } as OverviewDto

/** What the page of a request finds at hand. */
async function atHand(
  options: {
    path?: string
    headers?: IncomingMessage['headers']
    signedIn?: boolean
    overview?: () => Promise<OverviewDto>
  } = {},
) {
  let asked = 0
  let found: ReturnType<ReturnType<typeof firstAnswers>['getStore']>
  let rendered = 0
  const render = async () => {
    // As Next does: the page is rendered some turns later.
    await new Promise((resolve) => setImmediate(resolve))
    found = firstAnswers().getStore()
    rendered++
  }
  const first = withFirstOverview(render, {
    overview: {
      get: () => {
        asked++
        return options.overview?.() ?? Promise.resolve(OVERVIEW)
      },
    },
    servers: { monitors: async () => [] },
    access: {
      actorOf: () =>
        (options.signedIn ?? true)
          ? {
              ...{ name: 'local', role: 'admin', keyId: null, hasKey: false },
              ended: new AbortController().signal,
            }
          : null,
    },
    log: createLogger('silent', 'test'),
  })
  const req = { url: options.path ?? '/', headers: options.headers ?? {} } as IncomingMessage
  await first(req, {} as ServerResponse)
  expect(rendered).toBe(1)
  return { found, asked }
}

describe('the overview’s document', () => {
  it('finds its data at hand, in its own request alone', async () => {
    const before = Date.now()
    const { found } = await atHand()
    expect(found).toMatchObject({ overview: OVERVIEW, monitors: [] })
    expect(found?.atMs).toBeGreaterThanOrEqual(before)
    expect(firstAnswers().getStore()).toBeUndefined()
  })

  it('nothing is read for other pages, for the router of the pages, for who has no key', async () => {
    for (const options of [{ path: '/runs' }, { headers: { rsc: '1' } }, { signedIn: false }])
      expect(await atHand(options)).toEqual({ found: undefined, asked: 0 })
  })

  it('is rendered without data that fail, or that do not come in time', async () => {
    for (const overview of [
      () => Promise.reject(new Error('away')),
      () => new Promise<never>(() => {}),
    ])
      expect(await atHand({ overview })).toEqual({ found: undefined, asked: 1 })
  })
})
