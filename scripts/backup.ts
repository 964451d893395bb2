import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig } from '../server/config.ts'
import { createLogger } from '../server/log.ts'
import { BackupError } from '../server/store/backup/archive.ts'
import { writeBackup } from '../server/store/backup/write-backup.ts'
import { connectDatabase } from '../server/store/postgres/connect.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { readSecretKeys } from '../server/store/secret-keys.ts'
import { megabytes, progressLine, runCommand } from './database-command.ts'

// npm run backup -- FILE: writes a backup of the service's database, which may be in use.

const HELP = `npm run backup -- FILE [--with-secrets-key]

Writes a backup of the database of the service (REWARDOPS_DATA_DIR or DATABASE_URL) to FILE, which must not exist. The
service may run meanwhile. "npm run restore" reads the file. docs/operations.md lists the contents of a backup.

  --with-secrets-key   include the key that decrypts webhooks and the API keys of reward-model servers`

await runCommand(HELP, 'with-secrets-key', async (path, withSecretsKey, signal) => {
  const config = loadConfig({ ...process.env, LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' })
  const log = createLogger(config.logLevel, 'backup')
  const { databaseUrl, dataDir } = config
  if (databaseUrl === null && !existsSync(join(dataDir, 'postgres'))) {
    throw new BackupError(
      `${dataDir} has no database. Set REWARDOPS_DATA_DIR or DATABASE_URL to that of the service.`,
    )
  }
  const running = databaseUrl ?? runningEmbeddedUrl(dataDir)
  if (running === null && isUnreadable(join(dataDir, 'postgres.passwords'))) {
    throw new BackupError(
      `${dataDir} belongs to another user. Run the command as the user of the service.`,
    )
  }
  const secretsKey = withSecretsKey ? (readSecretKeys(config.secrets, log) ?? undefined) : undefined
  if (withSecretsKey && secretsKey === undefined) {
    throw new BackupError(`The key file ${config.secrets.file} does not exist.`)
  }
  const database = await connectDatabase({
    ...{ databaseUrl: running, dataDir, log, signal, waitForOwnerMs: 0 },
  })
  const startedAt = performance.now()
  try {
    const manifest = await writeBackup({
      ...{ url: database.url, path, secretsKey, signal },
      program: versionOf(),
      settings: Object.fromEntries(
        config.settings.flatMap(({ name, value, isDefault }) => (isDefault ? [] : [[name, value]])),
      ),
      onProgress: progressLine,
    })
    const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
    console.log(
      `${path}: ${rows.toLocaleString('en')} rows, ${megabytes(statSync(path).size)}, ${seconds} s`,
    )
    if (manifest.secretsKey !== null && secretsKey === undefined) {
      console.log(
        `The secrets in the backup are encrypted with the key ${manifest.secretsKey}, which it does not include. Keep ` +
          `a separate copy of ${config.secrets.value === null ? config.secrets.file : 'REWARDOPS_SECRETS_KEY'}.`,
      )
    }
  } finally {
    await database.close()
  }
})

function isUnreadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}

function versionOf(): string {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
