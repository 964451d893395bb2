import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, test } from 'vitest'
import { copyClusterTemplate } from '../../../testkit/service/cluster-template.ts'
import { createLogger } from '../../log.ts'
import { startEmbeddedPostgres } from './embedded.ts'
import { THROWAWAY_SETTINGS } from './settings.ts'

test('a lost file of passwords is written again at the next start', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'rewardops-roles-'))
  try {
    copyClusterTemplate(dataDir)
    rmSync(join(dataDir, 'postgres.passwords'))
    const log = createLogger('silent', 'test')
    const postgres = await startEmbeddedPostgres({ dataDir, log, settings: THROWAWAY_SETTINGS })
    try {
      for (const url of [postgres.url(), postgres.adminUrl('postgres')]) {
        const client = new pg.Client({ connectionString: url })
        await client.connect()
        const { rows } = await client.query('select 1 as one')
        await client.end()
        expect(rows).toEqual([{ one: 1 }])
      }
    } finally {
      await postgres.stop()
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
})
