import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { makeClusterTemplate } from '../../../testkit/service/cluster-template.ts'
import { createLogger } from '../../log.ts'
import { FUNCTIONS_SCHEMA } from '../functions.ts'
import { migrate } from '../migrate.ts'
import { startEmbeddedPostgres } from './embedded.ts'
import { THROWAWAY_SETTINGS } from './settings.ts'

/** Input of `test-database.ts`: the URL of Postgres, or the reason why the template could not be created. */
export interface TestPostgres {
  adminUrl: string
  problem: string | null
}

declare module 'vitest' {
  interface ProvidedContext {
    testPostgres: TestPostgres
  }
}

export const TEMPLATE = 'rewardops_template'

/** Vitest's global set-up: one Postgres for the test run, in a folder that is removed afterwards. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rewardops-test-'))
  // No connection needs a password, because tests connect through proxies and as roles of their own.
  const hba = join(dataDir, 'hba.conf')
  writeFileSync(hba, 'local all all trust\n')
  const postgres = await startEmbeddedPostgres({
    dataDir,
    log: createLogger('warn', 'test postgres'),
    settings: { ...THROWAWAY_SETTINGS, hba_file: hba },
  })
  const adminUrl = postgres.adminUrl('postgres')
  let problem: string | null = null
  try {
    const client = new pg.Client({ connectionString: adminUrl })
    await client.connect()
    await client.query(`create database ${TEMPLATE}`)
    // Test clients find the SQL functions by the same search path as the service's sessions.
    await client.query(`alter role current_user set search_path = public, ${FUNCTIONS_SCHEMA}`)
    await client.end()
    await migrate(postgres.adminUrl(TEMPLATE))
  } catch (error) {
    // If the set-up fails, only the tests that use a database fail.
    problem = (error as Error).message
  }
  project.provide('testPostgres', { adminUrl, problem })
  const removeCluster = await makeClusterTemplate()
  return async () => {
    removeCluster()
    await postgres.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}
