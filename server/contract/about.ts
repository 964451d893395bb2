/** `about.get`: the service itself. */
export interface AboutDto {
  version: string
  nodeVersion: string
  postgresVersion: string
  /** The embedded one, or one given by DATABASE_URL. */
  embedded: boolean
  startedAt: string
  databaseBytes: number
  /** Everything under the data folder; null: not all of it can be read. */
  dataDirBytes: number | null
  dataDir: string
  /** The largest tables with their indexes; days of texts are one. */
  tables: { name: string; bytes: number }[]
  /** Settings in force; secrets are only said to be set. */
  settings: { name: string; value: string; isDefault: boolean }[]
}
