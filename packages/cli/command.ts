import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Output } from './output.ts'
import type { ServiceClient } from './service-client.ts'

/** An option of a command as `node:util`'s parseArgs takes it, with what the help says of it. */
export interface CommandOption extends ParseArgsOptionDescriptor {
  /** What the help says it does. */
  help: string
  /** What stands for its value in the help, such as `NAME`; for `type: 'string'`. */
  value?: string
}

/** Options by their long name. */
export type CommandOptions = Readonly<Record<string, CommandOption>>

type ValueOf<O extends CommandOption> = O extends { multiple: true }
  ? (O['type'] extends 'boolean' ? boolean : string)[]
  : O['type'] extends 'boolean'
    ? boolean
    : string

/** What was given for a command's options; what was not given is undefined. */
export type Values<O extends CommandOptions> = { [K in keyof O]?: ValueOf<O[K]> }

/** What a command has in hand when it runs. */
export interface CommandContext<O extends CommandOptions> {
  values: Values<O>
  positionals: string[]
  output: Output
  /**
   * The service of --url or REWARDOPS_URL, asked who it is first.
   * @throws CliError in one sentence, within 5 s, when it cannot be used
   */
  service(): Promise<ServiceClient>
  /** Aborted by Ctrl-C and SIGTERM. */
  signal: AbortSignal
}

/** One command: a file of packages/cli/commands that exports `command`. */
export interface Command<O extends CommandOptions = CommandOptions> {
  name: string
  /** A line for the list of commands. */
  summary: string
  /** What follows the name, as `FILE... [options]`. */
  usage: string
  /** Paragraphs of its help, after the summary. */
  details?: string
  options: O
  /** Positional arguments it takes, at least and at most; default none. */
  positionals?: { min: number; max: number }
  /** Gives the exit code; nothing means 0. @throws CliError */
  run(context: CommandContext<O>): Promise<number | undefined>
}

/** Gives a command back, its options' types known to its `run`. */
export function defineCommand<const O extends CommandOptions>(command: Command<O>): Command<O> {
  return command
}
