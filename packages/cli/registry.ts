import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import type { Command } from './command.ts'

const FOLDER = new URL('./commands/', import.meta.url)

/** `.ts` in the repository, `.js` in the published package. */
const ENDING = import.meta.url.slice(import.meta.url.lastIndexOf('.'))

export function commandNames(): string[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(ENDING))
    .map((file) => basename(file, ENDING))
    .filter((name) => /^[a-z][a-z-]*$/.test(name))
    .sort()
}

/** Loads one command; null for an unknown name. Other commands are not loaded, so the CLI starts fast. */
export async function loadCommand(name: string): Promise<Command | null> {
  if (!commandNames().includes(name)) return null
  const file = new URL(`${name}${ENDING}`, FOLDER)
  const { command } = (await import(file.href)) as { command: Command }
  return command
}
