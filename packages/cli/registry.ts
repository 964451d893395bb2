import { readdirSync } from 'node:fs'
import type { Command } from './command.ts'

const FOLDER = new URL('./commands/', import.meta.url)

/** Names of all commands in alphabetical order. Each is a file of packages/cli/commands. */
export function commandNames(): string[] {
  return readdirSync(FOLDER)
    .flatMap((file) => /^([a-z][a-z-]*)\.ts$/.exec(file)?.[1] ?? [])
    .sort()
}

/** Loads one command; null for an unknown name. Loading no other command keeps the start fast. */
export async function loadCommand(name: string): Promise<Command | null> {
  if (!commandNames().includes(name)) return null
  const { command } = (await import(new URL(`${name}.ts`, FOLDER).href)) as { command: Command }
  return command
}
