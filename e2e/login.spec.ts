import { expect } from '@playwright/test'
import { expectAccessible, expectLive, watchErrors } from './fixtures/look.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

const KEY = 'a-key-for-the-tests-0123456789'
let service: TestService
test.beforeAll(async () => {
  service = await startTestService({ REWARDOPS_API_KEYS: KEY })
})
test.afterAll(() => service.stop())

test('requires a key on every page, then redirects to the requested page', async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/batches?status=running`)
  await page.waitForURL(/\/login\?next=%2Fbatches%3Fstatus%3Drunning$/)
  await expectAccessible(page)
  errors.expectNone()

  await page.getByLabel('API key').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await expect(page.getByRole('alert').filter({ hasText: /key/i })).toBeVisible()

  await page.getByLabel('API key').fill(KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(/\/batches\?status=running$/)
  await expect(page.getByText('No matching batches')).toBeVisible()
  await expectLive(page)

  // The onboarding examples now contain the key header.
  await page.goto(service.url)
  await expect(page.locator('[data-snippet="curl"]')).toContainText('authorization: Bearer')

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL(/\/login/)
  await page.goto(`${service.url}/workers`)
  await page.waitForURL(/\/login\?next=%2Fworkers$/)
})

test('the overview document contains data only for requests with a key', async ({ request }) => {
  const document = async () => (await request.get(service.url)).text()
  expect(await document()).not.toContain('figures')
  const signIn = await request.post(`${service.url}/api/trpc/session.signIn`, {
    data: { key: KEY },
  })
  expect(signIn.ok()).toBe(true)
  expect(await document()).toContain('figures')
})

test('an expired session leads to the sign-in page and back to the same URL', {
  tag: '@full',
}, async ({ page, context }) => {
  await page.goto(`${service.url}/login`)
  await page.getByLabel('API key').fill(KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(`${service.url}/`)
  await page.goto(`${service.url}/batches?status=completed`)
  await expectLive(page)
  await context.clearCookies()
  // The next query of the page is refused.
  await page.getByLabel('Status').selectOption('failed')
  await page.waitForURL(/\/login\?next=%2Fbatches%3Fstatus%3Dfailed$/)
  await page.getByLabel('API key').fill(KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(/\/batches\?status=failed$/)
  await expect(page.getByText('No matching batches')).toBeVisible()
  await expectLive(page)
})
