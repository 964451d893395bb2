import type { Logger } from '../log.ts'
import type { EngineName, ScoringServer } from '../router/server-admission.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import type { ServerLocks } from '../store/server-locks.ts'
import type { ServerRegistry } from '../store/server-registry.ts'
import type { ServerRow } from '../store/sql/servers.ts'
import type { ModelTimings } from './timings.ts'

/** Dependencies that the parts of the RewardModelManager share. */
export interface ModelsContext {
  db: Database
  queue: JobQueue
  registry: ServerRegistry
  locks: ServerLocks
  timings: ModelTimings
  /** Resolves to true when this process is the one that does a kind of background work now. */
  isTurn: ((kind: string) => Promise<boolean>) | undefined
  log: Logger
}

/** The columns of a server that engines need to request scores. */
export type ScoringRow = Pick<
  ServerRow,
  | 'url'
  | 'engine'
  | 'kind'
  | 'api_key'
  | 'model'
  | 'version'
  | 'route'
  | 'label'
  | 'plain_text'
  | 'max_model_len'
  | 'chat_template'
>

/** A server's row in the engines' form. */
export function scoringServer(row: ScoringRow): ScoringServer {
  return {
    url: row.url,
    engine: row.engine as EngineName,
    apiKey: row.api_key,
    model: row.model,
    version: row.version,
    kind: row.kind,
    route: row.route,
    label: row.label,
    plainText: row.plain_text,
    maxModelLen: row.max_model_len,
    chatTemplate: row.chat_template,
  }
}
