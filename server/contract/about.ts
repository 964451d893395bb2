import type { Isolation } from './isolation.ts'

/** The output of `about.get`: version, settings and disk use of the service. */
export interface AboutDto {
  version: string
  nodeVersion: string
  postgresVersion: string
  /** True if the service runs Postgres itself, false if it uses the database of DATABASE_URL. */
  embedded: boolean
  startedAt: string
  databaseBytes: number
  /** Size of the data folder, or null if unknown. */
  dataDirBytes: number | null
  /** Path of the data folder, or null if the caller is not an admin. */
  dataDir: string | null
  /** Isolation of custom reward functions. */
  functionIsolation: {
    level: Isolation
    /** The mechanisms, such as `own user, cgroups v2`. */
    how: string
    /**
     * Protections that this machine lacks, with remedies. Empty unless the caller is an admin, because the texts name
     * folders.
     */
    missing: string[]
  }
  /** The largest database tables with their indexes. The daily partitions of texts count as one table. */
  tables: { name: string; bytes: number }[]
  /**
   * Settings in force. The value of a secret only says whether it is set. For callers that are not admins, the same
   * applies to files and folders that differ from the default.
   */
  settings: { name: string; value: string; isDefault: boolean }[]
}
