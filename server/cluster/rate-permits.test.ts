import { expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { RatePermits } from './rate-permits.ts'
import { RecordingRouter } from './testing/recording-router.ts'

/** Tests of rate limits that do not wait for time to pass. rate-permits.full.test.ts has the others. */

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')

it('unused permits return to the bucket', async () => {
  const db = new Database(database.url, log, { max: 1, name: 'test' })
  // `filled_at` is in the future, so that the bucket does not refill during the test.
  await db.adhoc(
    `insert into rate_bucket (resource, level, filled_at)
     select 'server:7:' || limited, 5, clock_timestamp() + interval '1 hour' from unnest(array['rpm', 'tpm']) limited`,
  )
  const unused = [{ requests: 10, tokens: 12 }]
  const router = new RecordingRouter()
  router.reclaimPermits = () => unused.pop() ?? { requests: 0, tokens: 0 }
  const permits = new RatePermits(db, router, log)
  permits.track(7, { rpm: 6_000, tpm: 6_000 })
  await permits.close()
  expect(await db.adhoc('select level from rate_bucket order by resource')).toEqual([
    { level: 15 },
    { level: 17 },
  ])
  await db.close()
})
