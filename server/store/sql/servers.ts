import type { ServerState } from '../../wire/servers.ts'
import type { Database } from '../database.ts'

/** A registered server's row. */
export interface ServerRow {
  id: number
  name: string
  url: string
  engine: string
  kind: 'discriminative' | 'generative'
  model: string
  weight: number
  max_in_flight: number | null
  api_key: string | null
  tags: string[]
  version: string | null
  max_model_len: number | null
  state: ServerState
  state_cause: string | null
  state_since: Date
  last_probe_at: Date | null
  requests: string
  errors: string
  retries: string
}

/** Servers that were not removed, in order of registration. */
export async function activeServers(db: Database): Promise<ServerRow[]> {
  return db.rows<ServerRow>(
    'servers-active',
    `select id, name, url, engine, kind, model, weight, max_in_flight, api_key, tags, version, max_model_len, state,
            state_cause, state_since, last_probe_at, requests, errors, retries
     from server where removed_at is null order by id`,
  )
}
