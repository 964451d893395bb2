import { AsyncLocalStorage } from 'node:async_hooks'
import type { OverviewDto } from './pages.ts'
import type { ServerMonitorDto } from './server-detail.ts'

/** What the overview asks for first, answered before its page is rendered. */
export interface FirstAnswers {
  /** When they were read, epoch milliseconds. */
  atMs: number
  overview: OverviewDto
  monitors: ServerMonitorDto[]
}

const KEY = Symbol.for('rewardops.first-answers')
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<FirstAnswers> | undefined>

/**
 * Carries the answers from the listener to the page of the same request. The pages are bundled and have modules of their own:
 * what both have is the process. Server only.
 */
export function firstAnswers(): AsyncLocalStorage<FirstAnswers> {
  shared[KEY] ??= new AsyncLocalStorage()
  return shared[KEY]
}
