import type { Logger } from '../../log.ts'
import type { EngineName, ScoringServer } from '../../router/server-admission.ts'
import type { Database } from '../../store/database.ts'
import type { JobQueue } from '../../store/job-queue.ts'
import type { ServerLocks } from '../../store/server-locks.ts'
import type { ServerRegistry } from '../../store/server-registry.ts'
import type { ServerRow } from '../../store/sql/servers.ts'
import type { ModelTimings } from './timings.ts'

/** What the parts of the RewardModelManager share. */
export interface ModelsContext {
  db: Database
  queue: JobQueue
  registry: ServerRegistry
  locks: ServerLocks
  timings: ModelTimings
  log: Logger
}

/** A server's row as the engines are told of it. */
export function scoringServer(
  row: Pick<
    ServerRow,
    'url' | 'engine' | 'api_key' | 'model' | 'version' | 'route' | 'max_model_len' | 'chat_template'
  >,
): ScoringServer {
  return {
    url: row.url,
    engine: row.engine as EngineName,
    apiKey: row.api_key,
    model: row.model,
    version: row.version,
    route: row.route,
    maxModelLen: row.max_model_len,
    chatTemplate: row.chat_template,
  }
}
