import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import type { ServerLocks } from '../store/server-locks.ts'
import type { ServerRegistry } from '../store/server-registry.ts'
import type { ModelTimings } from './timings.ts'

export interface ModelsContext {
  db: Database
  queue: JobQueue
  registry: ServerRegistry
  locks: ServerLocks
  timings: ModelTimings
  /** Id of this process's row in `process`; 0 if it has none. */
  processId: number
  /**
   * Resolves to true if this process currently does this kind of background work. Undefined if there is no other
   * process.
   */
  isTurn: ((kind: string) => Promise<boolean>) | undefined
  log: Logger
}
