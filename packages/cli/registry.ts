import { readdirSync } from 'node:fs'
import type { Command } from './command.ts'

const FOLDER = new URL('./commands/', import.meta.url)

/** Names of the commands there are: a file of packages/cli/commands each, in the order of the alphabet. */
export function commandNames(): string[] {
  return readdirSync(FOLDER)
    .flatMap((file) => /^([a-z][a-z-]*)\.ts$/.exec(file)?.[1] ?? [])
    .sort()
}

/** Loads one command; the others cost its start nothing. Null: there is none of this name. */
export async function loadCommand(name: string): Promise<Command | null> {
  if (!commandNames().includes(name)) return null
  const { command } = (await import(new URL(`${name}.ts`, FOLDER).href)) as { command: Command }
  return command
}
