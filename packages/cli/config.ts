import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The service's URL and API key, and the CLI's version. */
export interface CliConfig {
  /** `REWARDOPS_URL`, or null. */
  url: string | null
  /** `REWARDOPS_API_KEY`, or null. There is no option for it, because other users of the machine can read arguments. */
  apiKey: string | null
  version: string
}

/** Default URL: the service's default port on this machine. */
export const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Reads the CLI's settings from the environment. No other module of the CLI reads it. */
export function loadCliConfig(env: Record<string, string | undefined>): CliConfig {
  const manifest = fileURLToPath(new URL('../../package.json', import.meta.url))
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  return {
    url: env.REWARDOPS_URL?.trim() || null,
    apiKey: env.REWARDOPS_API_KEY?.trim() || null,
    version,
  }
}
