import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface CliConfig {
  /** From `REWARDOPS_URL`. */
  url: string | null
  /**
   * From `REWARDOPS_API_KEY`. There is no option for the key, because other users of the machine can read a command's
   * arguments.
   */
  apiKey: string | null
  version: string
}

export const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Reads the CLI's settings from `env`. No other module of the CLI reads the environment. */
export function loadCliConfig(env: Record<string, string | undefined>): CliConfig {
  const manifest = fileURLToPath(new URL('../../package.json', import.meta.url))
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  return {
    url: env.REWARDOPS_URL?.trim() || null,
    apiKey: env.REWARDOPS_API_KEY?.trim() || null,
    version,
  }
}
