/** Scripts depend on these codes; docs/cli.md has the table. */
export const EXIT = {
  ok: 0,
  /** The command line or a file is wrong. Nothing was sent, unless the message says otherwise. */
  badInput: 1,
  /** The service refused the call, for example because of a wrong key or an unknown batch. */
  refused: 2,
  /** No rewardops service answered, or it stayed busy. */
  unreachable: 3,
  /** The batch failed or was cancelled, or, with --fail-on-failed, one of its samples failed. */
  batchFailed: 4,
  /** --timeout passed before the batch ended. */
  notYet: 5,
  internal: 70,
  /** SIGINT (Ctrl-C), SIGTERM or SIGHUP. */
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export class CliError extends Error {
  readonly exitCode: ExitCode
  /** The service's error reason (server/contract/error-reasons.ts); null for other failures. */
  readonly reason: string | null

  constructor(exitCode: ExitCode, message: string, reason: string | null = null) {
    super(message)
    this.name = 'CliError'
    this.exitCode = exitCode
    this.reason = reason
  }
}

export function usageError(message: string): CliError {
  return new CliError(EXIT.badInput, message)
}
