import { expect } from '@playwright/test'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectFits, watchErrors } from './fixtures/look.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rm: SimulatedServers
let batch = ''

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  rm = await startSimulatedServers()
  await service.api.servers.register.mutate({ name: 'rm-1', url: rm.url })
  const question = { uid: 'q-1', dataSource: 'openai/gsm8k', prompt: '6 * 7?', groundTruth: '42' }
  const samples = ['#### 42', '#### 41', 'no', '#### 42'].map((response) => ({
    ...question,
    response,
  }))
  const given = {
    run: 'twice',
    step: 3,
    samples,
    reward: { onFailure: { policy: 'group_mean' } },
  }
  const { batchId } = await service.api.batches.submit.mutate(given as never)
  batch = batchId
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
})
test.afterAll(async () => {
  await removeServers(service)
  await rm.stop()
})

test('rescores a batch with the same and another reward, shows errors, and links the batches', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/batches/${batch}`)
  await page.getByRole('button', { name: 'Rescore' }).click()
  const sheet = page.getByRole('dialog', { name: `Rescore ${batch}` })
  const reward = sheet.getByLabel('Reward JSON', { exact: true })
  await expect(reward).toHaveValue(/"policy": "group_mean"/)
  await expect(sheet.getByLabel('Reward', { exact: true })).toHaveText(/unchanged/)
  await expectAccessible(page)

  await reward.fill('{"model": ')
  await sheet.getByRole('button', { name: 'Rescore' }).click()
  await expect(sheet.getByRole('alert')).toContainText('Invalid JSON')
  await choose(sheet.getByLabel('Reward', { exact: true }), 'simulated-rm')
  await expect(reward).toHaveValue('{\n  "model": "simulated-rm"\n}')
  await expect(sheet.getByRole('alert')).toHaveCount(0)
  await sheet.getByRole('button', { name: 'Rescore' }).click()

  await expect(page).not.toHaveURL(new RegExp(`/${batch}$`))
  const relations = page.locator('section', { hasText: /Rescores/ })
  await expect(relations.getByText('Rescore of')).toBeVisible()
  const rescored = page.url().split('/').at(-1) as string
  await relations.getByRole('link', { name: batch, exact: true }).click()
  await expect(page).toHaveURL(new RegExp(`/${batch}$`))
  await expect(relations.getByText('Rescored as')).toBeVisible()
  await expect(relations.getByRole('link', { name: rescored, exact: true })).toBeVisible()
  await relations.getByRole('link', { name: `Compare with ${rescored}` }).click()
  await expect(page).toHaveURL(new RegExp(`/compare\\?a=${batch}&b=${rescored}$`))
  errors.expectNone()
})

test('shows service errors in the sheet, also on a small screen', { tag: '@full' }, async ({
  page,
}) => {
  await page.setViewportSize({ width: 390, height: 800 })
  await page.goto(`${service.url}/batches/${batch}`)
  await page.getByRole('button', { name: 'Rescore' }).click()
  const sheet = page.getByRole('dialog', { name: `Rescore ${batch}` })
  await sheet.getByLabel('Reward JSON', { exact: true }).fill('{"model": "nobody"}')
  await sheet.getByRole('button', { name: 'Rescore' }).click()
  await expect(sheet.getByRole('alert')).toContainText('nobody')
  await expect(sheet.getByRole('alert')).toContainText('simulated-rm')
  await expectFits(page)
})
