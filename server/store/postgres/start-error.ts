/** Reasons why the database cannot be opened. The error's message names the remedy. */
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

/** Thrown if the database cannot be opened. The message is printed before exit. */
export class DatabaseStartError extends Error {
  readonly code: DatabaseStartCode

  constructor(code: DatabaseStartCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'DatabaseStartError'
    this.code = code
  }
}
