import { expect, type Page } from '@playwright/test'
import pg from 'pg'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { expectAccessible, expectLive } from './fixtures/look.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

/** Tests the pages while the service fails: it is killed, or its database queries time out. */

let service: TestService
let batch = ''

test.beforeAll(async () => {
  service = await startTestService({ REWARDOPS_WORKERS: '1' })
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'failing',
    step: 1,
    samples: Array.from({ length: 32 }, (_, i) => ({
      uid: `q${i >> 2}`,
      dataSource: 'openai/gsm8k',
      prompt: 'What is 6 * 12?',
      response: `So it is\n#### ${i % 3 === 0 ? 72 : i}`,
      groundTruth: '72',
    })),
  })
  batch = batchId
  await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
  await service.api.servers.register
    .mutate({ name: 'away', url: 'http://127.0.0.1:9' })
    .catch(() => {})
})
test.afterAll(() => service?.stop())

const PAGES: { path: () => string; shows: string | RegExp }[] = [
  { path: () => '/', shows: 'Recent batches' },
  { path: () => '/runs', shows: 'failing' },
  { path: () => '/runs/failing', shows: 'Reward wait' },
  { path: () => '/batches', shows: /All \d+ loaded/ },
  { path: () => `/batches/${batch}`, shows: 'Latency per sample' },
  { path: () => `/samples?batch=${batch}`, shows: /^b\d+-\d+$/ },
  { path: () => '/compare', shows: 'No rescored batches yet' },
  { path: () => '/monitors', shows: /^Runs$/ },
  { path: () => '/workers', shows: 'Event-loop delay p99' },
  { path: () => '/rewards', shows: 'gsm8k' },
]

async function openAll(open: () => Promise<Page>): Promise<Page[]> {
  const tabs: Page[] = []
  for (const { path, shows } of PAGES) {
    const tab = await open()
    await tab.goto(service.url + path())
    await expect(tab.locator('#page').getByText(shows).first()).toBeVisible()
    tabs.push(tab)
  }
  return tabs
}

test('pages keep their data and show its age while the service is down, and recover', async ({
  context,
}) => {
  test.setTimeout(180_000)
  const tabs = await openAll(() => context.newPage())
  for (const tab of tabs) await expectLive(tab)
  await service.kill()
  for (const [at, tab] of tabs.entries()) {
    const live = tab.locator('[data-live="reconnecting"], [data-live="disconnected"]')
    await expect(live, PAGES[at]?.path()).toContainText(/data \d+\ss old/)
    const { shows } = PAGES[at] as (typeof PAGES)[number]
    await expect(tab.locator('#page').getByText(shows).first()).toBeVisible()
    await expect(tab.getByRole('alert').filter({ hasText: 'is unreachable' })).toHaveCount(0)
  }
  await service.restart()
  for (const [at, tab] of tabs.entries()) {
    await expect(tab.locator('[data-live="live"]').first(), PAGES[at]?.path()).toBeVisible({
      timeout: 30_000,
    })
  }
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'after',
    step: 1,
    samples: [{ uid: 'q', dataSource: 'openai/gsm8k', prompt: '', response: '', groundTruth: '1' }],
  })
  const overview = tabs[0] as Page
  await expect(overview.getByRole('link', { name: batchId, exact: true }).first()).toBeVisible()
  for (const tab of tabs) await tab.close()
})

test('pages show query timeouts with a retry button, and recover', async ({ context }) => {
  test.skip(process.env.REWARDOPS_TEST_FULL !== '1', 'waits for two timeouts of ten seconds')
  test.setTimeout(240_000)
  const lock = new pg.Client({ connectionString: runningEmbeddedUrl(service.dataDir) as string })
  await lock.connect()
  try {
    await lock.query('begin')
    await lock.query(
      'lock table batch, sample, sample_group, run, process in access exclusive mode',
    )
    // /rewards is left out, because its queries read no locked table or are cached.
    const queried = PAGES.filter(({ path }) => path() !== '/rewards')
    const tabs = await Promise.all(
      queried.map(async ({ path }) => {
        const tab = await context.newPage()
        await tab.goto(service.url + path())
        return tab
      }),
    )
    for (const [at, tab] of tabs.entries()) {
      // Next announces routes in another element with the role alert.
      const alert = tab.locator('[role=alert]:not(#__next-route-announcer__)').first()
      await expect(alert, queried[at]?.path()).toContainText('Query timed out', {
        timeout: 60_000,
      })
      await expect(alert.getByRole('button', { name: 'Try again' })).toBeVisible()
      await expectAccessible(tab)
    }
    await lock.query('rollback')
    for (const [at, tab] of tabs.entries()) {
      const again = tab.getByRole('button', { name: 'Try again' }).first()
      // The page may retry by itself at the same time.
      if (await again.isVisible()) await again.click({ timeout: 2_000 }).catch(() => {})
      const { shows } = queried[at] as (typeof PAGES)[number]
      await expect(tab.locator('#page').getByText(shows).first()).toBeVisible({ timeout: 30_000 })
    }
  } finally {
    await lock.end()
  }
})
