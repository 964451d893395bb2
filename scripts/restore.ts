import { existsSync } from 'node:fs'
import { queueOrphans } from '../server/background/orphans.ts'
import { loadConfig } from '../server/config.ts'
import { prepareDataDir } from '../server/data-dir.ts'
import { createLogger } from '../server/log.ts'
import { ArchiveReader } from '../server/store/backup/archive.ts'
import { readManifest, SECRETS_KEY } from '../server/store/backup/manifest.ts'
import { restoreBackup } from '../server/store/backup/restore-backup.ts'
import { Database } from '../server/store/database.ts'
import { JobQueue } from '../server/store/job-queue.ts'
import { connectDatabase } from '../server/store/postgres/connect.ts'
import { writeSecretKeys } from '../server/store/secret-keys.ts'
import { unfinishedBatches } from '../server/store/sql/orphans.ts'
import { progressLine, runCommand } from './database-command.ts'

// npm run restore -- FILE: fills an empty database with a backup.

const HELP = `npm run restore -- FILE [--replace]

Restores the backup FILE into the database of the service (REWARDOPS_DATA_DIR or DATABASE_URL), which must be empty and
not in use. A restore that fails or is killed leaves the database as it was.

  --replace   first delete the existing data of the database, in the same transaction`

await runCommand(HELP, 'replace', async (path, replace, signal) => {
  const config = loadConfig({ ...process.env, LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' })
  const log = createLogger(config.logLevel, 'restore')
  const startedAt = performance.now()
  const archive = await ArchiveReader.open(path)
  try {
    // The manifest is read first, so that a damaged backup creates no database.
    const backup = await readManifest(archive)
    const { manifest } = backup
    const key = backup.entries.get(SECRETS_KEY)
    const { databaseUrl, dataDir, secrets } = config
    prepareDataDir(dataDir)
    const database = await connectDatabase({
      databaseUrl,
      ...{ dataDir, log, signal, waitForOwnerMs: 0 },
    })
    const db = new Database(database.url, log, { max: 2, name: 'rewardops restore' })
    const queue = new JobQueue(db, log, { supervise: true })
    try {
      const requeued = await restoreBackup({
        ...{ url: database.url, backup, replace, signal },
        prepare: () => queue.start(),
        async requeue(client) {
          let samples = 0
          for (const batch of await unfinishedBatches(client)) {
            samples += await queueOrphans(queue, batch, (work) => work(client))
          }
          return samples
        },
        onProgress: progressLine,
      })
      if (key !== undefined && secrets.value === null && !existsSync(secrets.file)) {
        writeSecretKeys(secrets.file, (await archive.read(key)).toString())
        console.log(`The secrets key of the backup was written to ${secrets.file}.`)
      } else if (manifest.secretsKey !== null) {
        console.log(
          `The secrets are encrypted with the key ${manifest.secretsKey}. Before you start the service, put this key ` +
            `into ${secrets.value === null ? secrets.file : 'REWARDOPS_SECRETS_KEY'}.`,
        )
      }
      const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
      const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
      console.log(
        `Restored ${rows.toLocaleString('en')} rows of the backup from ${manifest.takenAt} in ${seconds} s; ` +
          `${requeued.toLocaleString('en')} unfinished samples are queued.`,
      )
    } finally {
      await queue.stop()
      await db.close()
      await database.close()
    }
  } finally {
    await archive.close()
  }
})
