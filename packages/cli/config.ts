import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Where the service is and how it is spoken to. */
export interface CliConfig {
  /** `REWARDOPS_URL`, or null. */
  url: string | null
  /** `REWARDOPS_API_KEY`, or null. Never an argument: those can be read by everybody on the machine. */
  apiKey: string | null
  /** Of this program. */
  version: string
}

/** The address of a service on this machine with its default port. */
export const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Reads the environment, once and only here. */
export function loadCliConfig(env: NodeJS.ProcessEnv = process.env): CliConfig {
  const manifest = fileURLToPath(new URL('../../package.json', import.meta.url))
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  return {
    url: env.REWARDOPS_URL?.trim() || null,
    apiKey: env.REWARDOPS_API_KEY?.trim() || null,
    version,
  }
}
