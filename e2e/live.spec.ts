import { expect, type Page } from '@playwright/test'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { expectLive, pageHeader, watchErrors } from './fixtures/look.ts'
import { removeServers, startTestService, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rm: SimulatedServers
test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  rm = await startSimulatedServers(['--latency', 'uniform:100,600'])
  await service.api.servers.register.mutate({
    name: 'rm-1',
    url: rm.url,
    engine: 'vllm',
    maxInFlight: 16,
  })
})
test.afterAll(async () => {
  await removeServers(service)
  await rm.stop()
})

/** Submits a batch. The server scores 16 samples concurrently; `rm.control` can change its latency in the meantime. */
async function submit(samples: number, latency = 'uniform:100,600'): Promise<string> {
  await rm.control({ latency })
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'live',
    step: 1,
    groupSize: 4,
    reward: { model: rm.model },
    samples: Array.from({ length: samples }, (_, i) => ({
      uid: `q-${Math.floor(i / 4)}`,
      dataSource: 'openai/gsm8k',
      prompt: 'What is 6 * 12?',
      response: `#### ${i}`,
    })),
  })
  return batchId
}

const ended = async (page: Page) =>
  Number((await page.locator('[role="progressbar"]').first().getAttribute('aria-valuenow')) ?? 0)

test('a batch page follows its batch to the end without a reload', async ({ page }) => {
  const errors = watchErrors(page)
  const batchId = await submit(400, 'constant:1500')
  await page.goto(`${service.url}/batches/${batchId}`)
  await expect(pageHeader(page).getByText('Running')).toBeVisible()
  const first = await ended(page)
  await expect.poll(() => ended(page)).toBeGreaterThan(first)
  await rm.control({ latency: 'constant:10' })
  await expect(pageHeader(page).getByText('Completed')).toBeVisible({ timeout: 30_000 })
  await expect(page.getByLabel('Batch figures')).toContainText('400 of 400')
  await expect(page.getByLabel('Batch figures')).toContainText('100 of 100')
  errors.expectNone()
})

test('tabs share one stream, and another tab takes over when the first is closed', {
  tag: '@full',
}, async ({ context }) => {
  let streams = 0
  context.on('request', (request) => {
    if (request.url().includes('live.events')) streams++
  })
  const tabs: Page[] = []
  for (const path of ['/', '/batches', '/workers', '/servers', '/samples', '/runs', '/batches']) {
    const tab = await context.newPage()
    await tab.goto(service.url + path)
    // The first tab is live before the others open, so it holds the stream.
    if (tabs.length === 0) await expectLive(tab)
    tabs.push(tab)
  }
  for (const tab of tabs) await expectLive(tab)
  expect(streams).toBe(1)
  await tabs[0]?.close()
  const last = tabs.at(-1) as Page
  await last.bringToFront()
  await expect.poll(() => streams).toBe(2)
  await expectLive(last)
  const batchId = await submit(8)
  await expect(last.getByRole('button', { name: 'Show 1 new batch' })).toBeVisible()
  await expect(last.locator(`[data-batch="${batchId}"]`)).toHaveCount(0)
  await last.getByRole('button', { name: 'Show 1 new batch' }).click()
  await expect(last.locator(`[data-batch="${batchId}"]`)).toBeVisible()
  for (const tab of tabs.slice(1)) await tab.close()
})

test('ten tabs stay live, also when the leading tab is closed', {
  tag: '@full',
}, async ({ context }) => {
  test.setTimeout(180_000)
  let streams = 0
  context.on('request', (request) => {
    if (request.url().includes('live.events')) streams++
  })
  const batchId = await submit(4_800)
  const tabs: Page[] = []
  // Tabs open one at a time, so that the first one holds the stream.
  for (let i = 0; i < 10; i++) {
    const tab = await context.newPage()
    await tab.goto(`${service.url}/batches`)
    await expectLive(tab)
    tabs.push(tab)
  }
  const allMove = async () => {
    await Promise.all(
      tabs.map(async (tab) => {
        const first = await ended(tab)
        await expect.poll(() => ended(tab)).toBeGreaterThan(first)
        await expectLive(tab)
      }),
    )
  }
  await allMove()
  expect(streams).toBe(1)
  await tabs.shift()?.close()
  await expect.poll(() => streams).toBe(2)
  await allMove()
  for (const tab of tabs) await tab.close()
  await service.api.batches.cancel.mutate({ batchId })
})

test('a paused page shows its pause, and catches up when resumed', {
  tag: '@full',
}, async ({ page }) => {
  const batchId = await submit(400)
  await page.goto(`${service.url}/batches/${batchId}`)
  await expectLive(page)
  await page.locator('[data-live]').click()
  await expect(page.locator('[data-live="paused"]')).toContainText('updates pending')
  const then = await ended(page)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  expect(await ended(page)).toBe(then)
  await expect(pageHeader(page).getByText('Running')).toBeVisible()
  await page.keyboard.press('l')
  await expect(pageHeader(page).getByText('Completed')).toBeVisible()
})

test('cancels a batch and its samples after a confirmation', { tag: '@full' }, async ({ page }) => {
  const batchId = await submit(2_000, 'constant:1000')
  await page.goto(`${service.url}/batches/${batchId}`)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Cancel batch' }).click()
  await expect(pageHeader(page).getByText('Cancelled')).toBeVisible()
  await page.getByRole('link', { name: /^cancelled/ }).click()
  await expect(page.locator('[data-sample]').first()).toContainText('cancelled')
})

test('a page shows the age of its data while the service is down, and becomes live again', {
  tag: '@full',
}, async ({ page }) => {
  test.setTimeout(120_000)
  const own = await startTestService()
  await page.goto(`${own.url}/workers`)
  await expectLive(page)
  await expect(page.locator('[data-worker]')).toHaveCount(2)
  await own.kill()
  await expect(page.locator('[data-live="reconnecting"]')).toContainText(/data \d+\ss old/)
  await expect(page.locator('[data-worker]')).toHaveCount(2)
  await expect(page.locator('[data-live="disconnected"]')).toBeVisible({ timeout: 20_000 })
  // While the service is down, a link does not open the browser's error page. Its page opens once the service responds
  // again.
  await page.getByRole('link', { name: 'Batches', exact: true }).first().click()
  await expect(page.getByText('The service is not responding.')).toBeVisible()
  await page.getByRole('button', { name: 'Stay here' }).click()
  await expect(page).toHaveURL(/\/workers$/)
  await page.getByRole('link', { name: 'Runs', exact: true }).first().click()
  await own.restart()
  await expect(page).toHaveURL(/\/runs$/)
  await page.goBack()
  await expectLive(page)
  await expect(page.getByText('Exited workers')).toBeVisible()
  await own.stop()
})
