import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from '@playwright/test'
import { createTRPCClient, httpLink } from '@trpc/client'
import { freePort } from '../examples/processes/port.ts'
import { startReferenceRmProcess } from '../examples/processes/reference-rm.ts'
import { startService } from '../examples/processes/service.ts'
import type { AppRouter } from '../server/api/root.ts'
import { createLogger } from '../server/log.ts'
import { GroupRollUps } from '../server/loop/group-roll-ups.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'
import { seedBatches } from '../server/store/seeded/seed-batches.ts'
import { findChromium } from './chromium.mjs'

// Takes the pictures of docs/screenshots: a service of its own with made-up runs, a reward-model server and a batch that
// is being scored.   node scripts/screenshots.ts [name …]

const OUT = join(import.meta.dirname, '../docs/screenshots')
const SAMPLES = 1_000_000
/** Rewards of the batch that runs while it is looked at, ms. */
const DELAY = 'uniform:200,9000'

const only = process.argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'rewardops-screenshots-'))
await chmod(folder, 0o711)
const log = createLogger('warn', 'screenshots')
const database = await openDatabase({ databaseUrl: null, dataDir: folder, log })
const db = new Database(database.url, log, { max: 2, name: 'screenshots', lazyCommits: true })
await seedBatches(db, { samples: SAMPLES, seed: 1, onBatch: () => {} })
await new GroupRollUps(db, log).all()
const [newest] = await db.adhoc<{ id: number }>(
  "select max(b.id) as id from batch b join run r on r.id = b.run_id where r.name = 'seeded-reward-model'",
)
await db.close()
await database.close()

const rmServer = await startReferenceRmProcess(['--delay', DELAY])
const service = await startService({
  port: await freePort(),
  dataDir: folder,
  env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined },
})
const api = createTRPCClient<AppRouter>({ links: [httpLink({ url: `${service.url}/api/trpc` })] })
const browser = await chromium.launch({
  executablePath: findChromium(),
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
})
try {
  for (const name of ['rm-a', 'rm-b']) {
    await api.servers.register.mutate({ name, url: rmServer.url, maxInFlight: 48 })
  }
  const { batchId } = await api.batches.submit.mutate({
    run: 'helpful-7b',
    step: 214,
    groupSize: 8,
    reward: { model: rmServer.model },
    samples: Array.from({ length: 2_048 }, (_, i) => ({
      uid: `prompt-${i >> 3}`,
      dataSource: i % 3 === 0 ? 'ultrafeedback' : 'helpsteer',
      prompt: `Explain step ${i >> 3} of the proof to a student.`,
      response: `${'Consider what we know. '.repeat(1 + ((i * 7919) % 23))}So it follows, case ${i}.`,
      responseLength: 40 + ((i * 7919) % 400),
    })),
  })
  const seeded = `b${newest?.id}`
  // Real rollouts by GSM8K's strict rule, and again by its flexible one.
  const strict = await api.demo.load.mutate()
  await api.batches.wait.query({ batchId: strict.batchId, waitMs: 60_000 })
  const flexible = await api.batches.rescore.mutate({
    batchId: strict.batchId,
    reward: { function: { name: 'gsm8k', kwargs: { method: 'flexible' } } } as never,
  })
  await api.batches.wait.query({ batchId: flexible.batchId, waitMs: 60_000 })
  const pages: [name: string, path: string, waitMs?: number][] = [
    ['batch', `/batches/${batchId}`, 9_000],
    ['overview', '/'],
    ['runs', '/runs'],
    ['run', '/runs/seeded-rule-and-model?over=seeded-math-rule'],
    ['batches', '/batches'],
    ['samples', `/samples?run=seeded-judge&sort=worst&sample=${seeded}-3`],
    ['servers', '/servers'],
    ['server', '/servers/rm-a'],
    ['workers', '/workers'],
    ['rewards', '/rewards'],
    ['compare', `/compare?a=${strict.batchId}&b=${flexible.batchId}`],
    ['compare-runs', '/compare?run=seeded-rule-and-model&run=seeded-math-rule&band=middle'],
    ['planner', '/planner'],
  ]
  for (const [name, path, waitMs = 2_500] of pages) {
    if (only.length > 0 && !only.includes(name)) continue
    for (const look of ['light', 'dark'] as const) {
      const page = await browser.newPage({
        viewport: { width: 1280, height: 800 },
        colorScheme: look,
      })
      await page.goto(service.url + path)
      await page.waitForTimeout(look === 'light' ? waitMs : 2_500)
      await page.screenshot({ path: join(OUT, `${name}-${look}.png`) })
      await page.close()
      console.log(`${name}-${look}.png`)
    }
  }
} finally {
  await browser.close()
  await service.stop()
  await rmServer.stop()
  await rm(folder, { recursive: true, force: true })
}
