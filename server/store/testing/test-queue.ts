import { afterAll, beforeAll } from 'vitest'
import { createLogger } from '../../log.ts'
import { Database } from '../database.ts'
import { JobQueue } from '../job-queue.ts'
import { testDatabaseForFile } from '../postgres/test-database.ts'

export interface TestQueue {
  readonly url: string
  readonly db: Database
  readonly queue: JobQueue
}

export function testQueueForFile({
  max = 2,
  level = 'error',
}: {
  max?: number
  level?: Parameters<typeof createLogger>[0]
} = {}): TestQueue {
  const database = testDatabaseForFile()
  const log = createLogger(level, 'test')
  let db: Database
  let queue: JobQueue
  beforeAll(async () => {
    db = new Database(database.url, log, { max, name: 'test' })
    queue = new JobQueue(db, log, { supervise: true })
    await queue.start()
  })
  afterAll(async () => {
    await queue.stop()
    await db.close()
  })
  return {
    get url() {
      return database.url
    },
    get db() {
      return db
    },
    get queue() {
      return queue
    },
  }
}
