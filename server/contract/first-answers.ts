import { AsyncLocalStorage } from 'node:async_hooks'
import type { OverviewDto } from './pages.ts'
import type { ServerMonitorDto } from './server-detail.ts'

/** Data that the overview needs first, read before its page is rendered. */
export interface FirstAnswers {
  /** Time of the read, epoch milliseconds. */
  atMs: number
  overview: OverviewDto
  monitors: ServerMonitorDto[]
}

const KEY = Symbol.for('rewardops.first-answers')
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<FirstAnswers> | undefined>

/**
 * Carries {@link FirstAnswers} from the listener to the page of the same request. The bundle of the pages has its own
 * copy of this module, so the storage is shared through `globalThis`. Server only.
 */
export function firstAnswers(): AsyncLocalStorage<FirstAnswers> {
  shared[KEY] ??= new AsyncLocalStorage()
  return shared[KEY]
}
