import { parseArgs } from 'node:util'
import type { Command, CommandOptions, Values } from './command.ts'
import { DEFAULT_URL, loadCliConfig } from './config.ts'
import { CliError, EXIT, usageError } from './exit-codes.ts'
import { COMMON_OPTIONS, commandHelp, programHelp } from './help.ts'
import { Output } from './output.ts'
import { commandNames, loadCommand } from './registry.ts'
import { ServiceClient } from './service-client.ts'

/** A Ctrl-C arrives twice: from the terminal, and from npm or the launcher. Signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000

/**
 * The command line `rewardops`: finds the command, parses its options, runs it and returns the exit code.
 * @throws CliError for an expected failure; any other error is a bug
 */
async function main(args: string[]): Promise<number> {
  const config = loadCliConfig()
  const [name = 'help', ...rest] = args
  if (name === '--version' || name === 'version') {
    process.stdout.write(`${config.version}\n`)
    return EXIT.ok
  }
  if (name === 'help' || name === '--help' || name === '-h') return help(rest)
  const command = await loadCommand(name)
  if (command === null) {
    throw usageError(
      `There is no command "${name}". The commands are: ${commandNames().join(', ')}. See "rewardops --help".`,
    )
  }
  const { values, positionals } = read(command, rest)
  if (values.help) {
    process.stdout.write(`${commandHelp(command)}\n`)
    return EXIT.ok
  }
  const { min, max } = command.positionals ?? { min: 0, max: 0 }
  if (positionals.length < min || positionals.length > max) {
    throw usageError(
      `Usage: rewardops ${command.name} ${command.usage}. See "rewardops ${command.name} --help".`,
    )
  }
  const stopping = new AbortController()
  let signalledAt = Number.NEGATIVE_INFINITY
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      const now = performance.now()
      if (now - signalledAt < SAME_SIGNAL_MS) return
      if (stopping.signal.aborted) process.exit(EXIT.interrupted)
      signalledAt = now
      stopping.abort()
    })
  }
  let client: ServiceClient | null = null
  try {
    const code = await command.run({
      values,
      positionals,
      output: new Output(process.stdout, process.stderr, values.json === true),
      signal: stopping.signal,
      async service() {
        client ??= await ServiceClient.connect({
          url: values.url ?? config.url ?? DEFAULT_URL,
          apiKey: config.apiKey,
          version: config.version,
          signal: stopping.signal,
        })
        return client
      },
    })
    return code ?? EXIT.ok
  } finally {
    await (client as ServiceClient | null)?.close()
  }
}

async function help([name]: string[]): Promise<number> {
  const command = name === undefined ? null : await loadCommand(name)
  if (command !== null) {
    process.stdout.write(`${commandHelp(command)}\n`)
    return EXIT.ok
  }
  const commands = await Promise.all(commandNames().map(loadCommand))
  process.stdout.write(`${programHelp(commands as Command[])}\n`)
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

/** A reader such as `head` may close the pipe early, which is not an error. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.internal)
})

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  const known = error instanceof CliError
  const message = known
    ? error.message
    : `This is a bug in rewardops: ${(error as Error)?.stack ?? String(error)}`
  process.stderr.write(`${message}\n`)
  if (process.argv.includes('--json')) {
    const { exitCode, reason } = known ? error : { exitCode: EXIT.internal, reason: null }
    process.stdout.write(`${JSON.stringify({ error: { message, reason, exitCode } })}\n`)
  }
  process.exitCode = known ? error.exitCode : EXIT.internal
}
