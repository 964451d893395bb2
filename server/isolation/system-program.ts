import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Fixed search path, so that no environment variable decides which programs isolate user code. */
const FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/usr/local/bin', '/run/current-system/sw/bin']

/** Returns the path of a program that the system provides, or null if it is not installed. */
export function systemProgram(name: string): string | null {
  return FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path)) ?? null
}
