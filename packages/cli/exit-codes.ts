/** How a command can end. Scripts switch on these: docs/cli.md prints the table, nothing else makes codes up. */
export const EXIT = {
  ok: 0,
  /** The command line or a file is wrong; nothing was sent, or the message says what was. */
  badInput: 1,
  /** The service refused: a wrong key, another version, an unknown batch. */
  refused: 2,
  /** Nothing answers there, or nothing that is a rewardops service, or it stayed busy. */
  unreachable: 3,
  /** The batch failed or was cancelled; with --fail-on-failed, also: a sample of it has no score. */
  batchFailed: 4,
  /** The batch had not ended when --timeout had passed. */
  notYet: 5,
  /** A fault of this program. */
  internal: 70,
  /** Ctrl-C. */
  interrupted: 130,
} as const

/** One code of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** What a command could not do, in a sentence or two for a person, with the code it ends with. */
export class CliError extends Error {
  readonly exitCode: ExitCode
  /** The service's word for it (server/contract/error-reasons.ts), or null where the service did not say it. */
  readonly reason: string | null

  constructor(exitCode: ExitCode, message: string, reason: string | null = null) {
    super(message)
    this.name = 'CliError'
    this.exitCode = exitCode
    this.reason = reason
  }
}

/** The command line is wrong. */
export function usageError(message: string): CliError {
  return new CliError(EXIT.badInput, message)
}
