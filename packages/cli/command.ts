import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Output } from './output.ts'
import type { ServiceClient } from './service-client.ts'

/** An option of a command as `node:util`'s parseArgs takes it, with its help text. */
export interface CommandOption extends ParseArgsOptionDescriptor {
  /** Its line in the help. */
  help: string
  /** Placeholder of its value in the help, such as `NAME`; for `type: 'string'`. */
  value?: string
}

/** Options by their long name. */
export type CommandOptions = Readonly<Record<string, CommandOption>>

type ValueOf<O extends CommandOption> = O extends { multiple: true }
  ? (O['type'] extends 'boolean' ? boolean : string)[]
  : O['type'] extends 'boolean'
    ? boolean
    : string

/** The parsed values of a command's options; an option that is not given is undefined. */
export type Values<O extends CommandOptions> = { [K in keyof O]?: ValueOf<O[K]> }

/** What a command's `run` receives. */
export interface CommandContext<O extends CommandOptions> {
  values: Values<O>
  positionals: string[]
  output: Output
  /**
   * Connects to the service of --url or REWARDOPS_URL and checks its identity. @throws CliError with one sentence, within 5
   * s, when it cannot be used
   */
  service(): Promise<ServiceClient>
  /** Aborted by Ctrl-C and SIGTERM. */
  signal: AbortSignal
}

/** One command: a file of packages/cli/commands that exports `command`. */
export interface Command<O extends CommandOptions = CommandOptions> {
  name: string
  /** Its line in the list of commands. */
  summary: string
  /** Usage after the name, such as `FILE... [options]`. */
  usage: string
  /** Paragraphs of its help, after the summary. */
  details?: string
  options: O
  /** Minimum and maximum number of positional arguments; default none. */
  positionals?: { min: number; max: number }
  /** Runs the command and returns its exit code; undefined means 0. @throws CliError */
  run(context: CommandContext<O>): Promise<number | undefined>
}

/** Returns a command unchanged, with the types of its options known to its `run`. */
export function defineCommand<const O extends CommandOptions>(command: Command<O>): Command<O> {
  return command
}
