import { parseArgs } from 'node:util'
import type { Command, CommandOptions, Values } from './command.ts'
import { DEFAULT_URL, loadCliConfig } from './config.ts'
import { CliError, EXIT, usageError } from './exit-codes.ts'
import { COMMON_OPTIONS, commandHelp, programHelp } from './help.ts'
import { Output, type TextSink } from './output.ts'
import { commandNames, loadCommand } from './registry.ts'
import { ServiceClient } from './service-client.ts'

export interface CliEnvironment {
  env: Record<string, string | undefined>
  stdout: TextSink
  stderr: TextSink
  signal: AbortSignal
}

export async function runCommandLine(args: string[], around: CliEnvironment): Promise<number> {
  try {
    return await runCommand(args, around)
  } catch (error) {
    const known = error instanceof CliError
    const message = known
      ? error.message
      : `This is a bug in rewardops: ${(error as Error)?.stack ?? String(error)}`
    around.stderr.write(`${message}\n`)
    const { exitCode, reason } = known ? error : { exitCode: EXIT.internal, reason: null }
    if (args.includes('--json')) {
      around.stdout.write(`${JSON.stringify({ error: { message, reason, exitCode } })}\n`)
    }
    return exitCode
  }
}

/** @throws CliError for an expected failure; any other error is a bug */
async function runCommand(args: string[], around: CliEnvironment): Promise<number> {
  const { stdout, stderr, signal } = around
  const config = loadCliConfig(around.env)
  const [name = 'help', ...rest] = args
  if (name === '--version' || name === 'version') {
    stdout.write(`${config.version}\n`)
    return EXIT.ok
  }
  if (name === 'help' || name === '--help' || name === '-h') return help(rest, stdout)
  const command = await loadCommand(name)
  if (command === null) {
    throw usageError(
      `There is no command "${name}". The commands are: ${commandNames().join(', ')}. See "rewardops --help".`,
    )
  }
  const { values, positionals } = read(command, rest)
  if (values.help) {
    stdout.write(`${commandHelp(command)}\n`)
    return EXIT.ok
  }
  const { min, max } = command.positionals ?? { min: 0, max: 0 }
  if (positionals.length < min || positionals.length > max) {
    throw usageError(
      `Usage: rewardops ${command.name} ${command.usage}. See "rewardops ${command.name} --help".`,
    )
  }
  let client: ServiceClient | null = null
  try {
    const code = await command.run({
      values,
      positionals,
      output: new Output(stdout, stderr, values.json === true),
      signal,
      async service() {
        client ??= await ServiceClient.connect({
          url: values.url ?? config.url ?? DEFAULT_URL,
          apiKey: config.apiKey,
          version: config.version,
          signal,
        })
        return client
      },
    })
    return code ?? EXIT.ok
  } finally {
    await (client as ServiceClient | null)?.close()
  }
}

async function help([name]: string[], stdout: TextSink): Promise<number> {
  const command = name === undefined ? null : await loadCommand(name)
  if (command !== null) {
    stdout.write(`${commandHelp(command)}\n`)
    return EXIT.ok
  }
  const commands = await Promise.all(commandNames().map(loadCommand))
  stdout.write(`${programHelp(commands as Command[])}\n`)
  return EXIT.ok
}

function read(
  command: Command,
  args: string[],
): {
  values: Values<CommandOptions> & { url?: string; json?: boolean; help?: boolean }
  positionals: string[]
} {
  try {
    return parseArgs({
      args,
      options: { ...command.options, ...COMMON_OPTIONS },
      allowPositionals: true,
      strict: true,
    }) as ReturnType<typeof read>
  } catch (error) {
    // Node's first sentence names the option. The other sentences are advice on values that look like options.
    const [first] = (error as Error).message.split('. ')
    throw usageError(`${first}. "rewardops ${command.name} --help" lists the options.`)
  }
}
