import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Output } from './output.ts'
import type { ServiceClient } from './service-client.ts'

/** A descriptor of `parseArgs` (node:util) with a help text. */
export interface CommandOption extends ParseArgsOptionDescriptor {
  help: string
  /** Placeholder for the value in the help, such as `NAME`; only for `type: 'string'`. */
  value?: string
}

export type CommandOptions = Readonly<Record<string, CommandOption>>

type ValueOf<O extends CommandOption> = O extends { multiple: true }
  ? (O['type'] extends 'boolean' ? boolean : string)[]
  : O['type'] extends 'boolean'
    ? boolean
    : string

export type Values<O extends CommandOptions> = { [K in keyof O]?: ValueOf<O[K]> }

export interface CommandContext<O extends CommandOptions> {
  values: Values<O>
  positionals: string[]
  output: Output
  /**
   * Connects to the service at --url, REWARDOPS_URL or the default URL, and checks its identity. Later calls return the
   * same client.
   * @throws CliError within 5 s when the service cannot be used
   */
  service(): Promise<ServiceClient>
  /** Aborted by SIGINT (Ctrl-C), SIGTERM and SIGHUP. */
  signal: AbortSignal
}

/** One command: a file of packages/cli/commands that exports `command`. */
export interface Command<O extends CommandOptions = CommandOptions> {
  name: string
  summary: string
  /** Arguments after the command's name, such as `FILE... [options]`. */
  usage: string
  details?: string
  options: O
  positionals?: { min: number; max: number }
  /** Runs the command. Returns its exit code; undefined means 0. @throws CliError */
  run(context: CommandContext<O>): Promise<number | undefined>
}

/** Returns the command unchanged. The signature gives the argument of `run` the types of the option values. */
export function defineCommand<const O extends CommandOptions>(command: Command<O>): Command<O> {
  return command
}
