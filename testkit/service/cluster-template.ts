import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../server/log.ts'
import { openDatabase } from '../../server/store/postgres/connect.ts'

/** Names the folder of the template to the processes that tests run in. */
const VARIABLE = 'REWARDOPS_TEST_CLUSTER'

/**
 * Makes a migrated cluster that the services of a test run begin with: making one takes a second of each start, a copy
 * a tenth of that. Returns how to remove it.
 */
export async function makeClusterTemplate(): Promise<() => void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rewardops-template-'))
  const log = createLogger('warn', 'template')
  const database = await openDatabase({ databaseUrl: null, dataDir, log })
  await database.close()
  process.env[VARIABLE] = dataDir
  return () => rmSync(dataDir, { recursive: true, force: true })
}

/** Puts the template's cluster into a fresh data folder; without a template the service makes its own. */
export function copyClusterTemplate(dataDir: string): void {
  const template = process.env[VARIABLE]
  if (template === undefined) return
  const folder = join(dataDir, 'postgres')
  cpSync(join(template, 'postgres'), folder, { recursive: true })
  chmodSync(folder, 0o700)
}
