/** Why the database could not be opened; the message beside it says what to do. */
export type DatabaseStartCode =
  | 'data_folder_in_use'
  | 'data_folder_unusable'
  | 'no_binaries'
  | 'start_failed'
  | 'bad_url'
  | 'unreachable'
  | 'too_old'
  | 'read_only'
  | 'transaction_pooler'

/** The service cannot start for want of a database. Meant to be printed, message and all, before exit. */
export class DatabaseStartError extends Error {
  readonly code: DatabaseStartCode

  constructor(code: DatabaseStartCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'DatabaseStartError'
    this.code = code
  }
}
