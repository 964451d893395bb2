import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from '@playwright/test'
import { expectAccessible, expectLive, pageHeader, watchErrors } from './fixtures/look.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

const run = promisify(execFile)
let service: TestService
test.beforeAll(async () => {
  service = await startTestService()
})
test.afterAll(() => service.stop())

test.describe.configure({ mode: 'serial' })

test('leads from an empty service to a first batch, its worst sample, and a shared link', async ({
  page,
  browser,
}) => {
  const errors = watchErrors(page)
  await page.goto(service.url)
  await expect(page.getByRole('heading', { name: 'No rollouts yet' })).toBeVisible()
  await expect(page.locator('[data-snippet="curl"]')).toContainText(
    `${service.url}/api/trpc/batches.submit`,
  )
  await expectLive(page)
  await expectAccessible(page)

  // The first batch completes while its page is open.
  await page.getByRole('button', { name: 'Load demo' }).click()
  await page.waitForURL(/\/batches\/b\d+$/)
  const header = pageHeader(page)
  await expect(header.getByText('completed')).toBeVisible()
  const figures = page.getByLabel('Batch figures')
  await expect(figures).toContainText('512 of 512')
  await expect(figures).toContainText('64 of 64')
  await expect(page.getByRole('table', { name: 'Groups in completion order' })).toContainText(
    'arithmetic-',
  )
  await expectAccessible(page)

  // The sample with the lowest score, and the next ones.
  await page.getByRole('link', { name: 'Worst samples' }).click()
  const rows = page.getByRole('table', { name: 'Samples' }).locator('[data-sample]')
  await expect(rows.first()).toBeVisible()
  const ids = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('data-sample')))
  await rows.first().getByRole('button').click()
  await expect(page.locator(`[data-panel="${ids[0]}"]`)).toContainText('Response')
  await page.keyboard.press('j')
  await expect(page.locator(`[data-panel="${ids[1]}"]`)).toBeVisible()
  await page.keyboard.press('j')
  await expect(page.locator(`[data-panel="${ids[2]}"]`)).toBeVisible()
  await page.keyboard.press('k')
  await expect(page.locator(`[data-panel="${ids[1]}"]`)).toContainText('Ground truth')
  expect(new URL(page.url()).searchParams.get('sample')).toBe(ids[1])
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  await expect(page.locator('[data-panel]')).toHaveCount(0)

  // Samples with a score of 0.25 to 0.5, and the link to them.
  // The upper bound first: the lowest score stays on top until the lower bound applies, so a row
  // of the previous list cannot pass for one of the new list.
  await page.getByLabel('Score to').fill('0.5')
  await page.getByLabel('Score to').press('Enter')
  await expect(page).toHaveURL(/scoreMax=0\.5/)
  await expect(rows.first()).toContainText('−1')
  await page.getByLabel('Score from').fill('0.2')
  await page.getByLabel('Score from').press('Enter')
  await expect(page).toHaveURL(/scoreMin=0\.2/)
  await expect(rows.first()).toContainText('0.250')
  const filtered = await rows.evaluateAll((all) =>
    all.map((row) => row.getAttribute('data-sample')),
  )
  await rows.first().getByRole('button').click()
  await expect(page.locator('[data-panel]')).toContainText('0.250')
  const shared = page.url()
  errors.expectNone()

  const stranger = await browser.newContext({ colorScheme: 'dark' })
  const theirs = await stranger.newPage()
  const theirErrors = watchErrors(theirs)
  await theirs.goto(shared)
  const theirRows = theirs.getByRole('table', { name: 'Samples' }).locator('[data-sample]')
  await expect(theirs.locator(`[data-panel="${filtered[0]}"]`)).toContainText('0.250')
  await expect(theirRows).toHaveCount(filtered.length)
  expect(
    await theirRows.evaluateAll((all) => all.map((row) => row.getAttribute('data-sample'))),
  ).toEqual(filtered)
  await expect(theirs.getByLabel('Score from')).toHaveValue('0.2')
  theirErrors.expectNone()
  await stranger.close()
})

test('the examples of the onboarding page work as pasted', {
  tag: '@full',
}, async ({ browser }) => {
  const empty = await startTestService()
  try {
    const page = await browser.newPage()
    await page.goto(empty.url)
    const snippet = async (language: string) => {
      await page.getByRole('button', { name: language, exact: true }).click()
      return page.locator(`[data-snippet="${language}"]`).innerText()
    }
    const [curl, python] = [await snippet('curl'), await snippet('Python')]
    const { stdout } = await run('sh', ['-c', curl])
    expect(JSON.parse(stdout).result.data).toMatchObject({ accepted: 2, groups: 1 })
    // The page switches to the dashboard without a reload.
    await expect(page.getByLabel('Service figures')).toBeVisible()
    await expect(page.getByText('No rollouts yet')).toHaveCount(0)
    const printed = await run('python3', ['-c', python]).catch((error) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    if (printed !== null) expect(printed.stdout.trim()).toBe('q1 [1, 0]')
    await page.close()
  } finally {
    await empty.stop()
  }
})
