import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { FunctionConfig } from '../../config.ts'
import { openToFunctions, planIsolation } from '../../isolation/isolation.ts'
import { HOST_PATHS, type HostSettings } from './start-host.ts'

/** The settings of custom reward functions with this machine's isolation plan. The object can be passed to a thread. */
export interface PlannedFunctions extends Omit<FunctionConfig, 'settings' | 'isolation'> {
  settings: HostSettings
}

export async function planFunctions({
  settings,
  isolation,
  ...config
}: FunctionConfig): Promise<PlannedFunctions> {
  try {
    mkdirSync(config.versionsDir, { recursive: true })
    openToFunctions(config.versionsDir)
  } catch {
    // A worker on another machine may be unable to create this folder. Functions on that worker later fail with the
    // error that is ignored here.
  }
  const paths = [...HOST_PATHS, config.versionsDir, join(config.functionsDir, 'node_modules')]
  return {
    ...config,
    settings: { ...settings, plan: await planIsolation({ ...isolation, paths }) },
  }
}
