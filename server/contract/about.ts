import type { Isolation } from './isolation.ts'

/** The output of `about.get`: version, settings and disk use of the service. */
export interface AboutDto {
  version: string
  nodeVersion: string
  postgresVersion: string
  /** False: the database of DATABASE_URL is used. */
  embedded: boolean
  startedAt: string
  databaseBytes: number
  /** Size of the data folder; null: unknown. */
  dataDirBytes: number | null
  dataDir: string
  /** How processes of reward functions are kept in. */
  functionIsolation: {
    level: Isolation
    /** What this machine provides for it. */
    how: string
    /** What this machine lacks, with remedies. */
    missing: string[]
  }
  /** The largest tables with their indexes. The daily partitions of texts count as one table. */
  tables: { name: string; bytes: number }[]
  /** Settings in force. For a secret, only whether it is set. */
  settings: { name: string; value: string; isDefault: boolean }[]
}
