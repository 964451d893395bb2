import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, type Page } from '@playwright/test'
import { NAVIGATION } from '../components/shell/pages.ts'
import { expectAccessible, expectLive, pageHeader, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible } from './fixtures/looks.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

const run = promisify(execFile)
let service: TestService
let batch = ''
// The first test needs an empty service, and data of other specs would change the overview.
test.beforeAll(async () => {
  service = await startTestService({ REWARDOPS_WORKERS: '1' })
})
test.afterAll(() => service.stop())

const palette = (page: Page) => page.getByRole('combobox')

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

  await page.getByRole('button', { name: 'Load demo' }).click()
  await page.waitForURL(/\/batches\/b\d+$/)
  const header = pageHeader(page)
  await expect(header.getByText('Completed')).toBeVisible()
  const figures = page.getByLabel('Batch figures')
  await expect(figures).toContainText('512 of 512')
  await expect(figures).toContainText('64 of 64')
  await expect(page.getByRole('table', { name: 'Groups in completion order' })).toContainText(
    'arithmetic-',
  )
  await expectStateAccessible(page)

  await page.getByRole('link', { name: 'Lowest-scoring samples' }).click()
  const rows = page.getByRole('table', { name: 'Samples' }).locator('[data-sample]')
  await expect(rows.first()).toBeVisible()
  const ids = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('data-sample')))
  await rows.first().getByRole('button').click()
  await expect(page.locator(`[data-panel="${ids[0]}"]`)).toContainText('Response')
  // If the panel did not take the focus, Tab would step through all rows before it reached the panel.
  await expect(page.getByRole('complementary', { name: `Sample ${ids[0]}` })).toBeFocused()
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
  await expect(rows.nth(1).getByRole('button')).toBeFocused()
  await page.keyboard.press('j')
  await expect(page.locator(`[data-panel="${ids[2]}"]`)).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(page.locator('[data-panel]')).toHaveCount(0)
  await expect(rows.nth(2).getByRole('button')).toBeFocused()

  // The upper bound is set first: the lowest score then stays on top until the lower bound applies, so that a row of
  // the old list cannot be mistaken for one of the new list.
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

test.describe('with a batch', () => {
  test.beforeAll(async () => {
    const { batchId } = await service.api.demo.load.mutate({})
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    batch = batchId
  })

  test('keyboard alone opens pages and the palette, and restores the focus', async ({ page }) => {
    const errors = watchErrors(page)
    await page.goto(service.url)
    await expectLive(page)
    await page.keyboard.press('Tab')
    await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused()
    await page.keyboard.press('Enter')
    await expect(page.locator('#page')).toBeFocused()

    await page.keyboard.press('g')
    await page.keyboard.press('b')
    await page.waitForURL('**/batches')
    await expect(page).toHaveTitle('Batches · rewardops')
    await page.keyboard.press('b')
    await page.getByRole('link', { name: batch }).focus()
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/batches/${batch}`)
    await expect(page).toHaveTitle(`${batch} · rewardops`)
    await expect(pageHeader(page).getByText('Completed')).toBeVisible()

    // Keys pressed while the palette opens go into its query and are not shortcuts: l would pause live updates.
    await page.keyboard.press('Control+k')
    await page.keyboard.type('planner')
    await expect(palette(page)).toBeFocused()
    await expect(palette(page)).toHaveValue('planner')
    await expectLive(page)

    await palette(page).fill('')
    await expect(page.getByRole('group', { name: 'On this page' })).toContainText(
      `Rescore ${batch}`,
    )
    await expectStateAccessible(page)
    await palette(page).fill('rescore')
    await page.keyboard.press('Enter')
    await expect(page.getByRole('dialog', { name: /^Rescore/ })).toBeVisible()
    await page.keyboard.press('Escape')
    await expect(page.getByRole('dialog')).toHaveCount(0)

    const worst = page.getByRole('link', { name: 'Lowest-scoring samples' })
    await worst.focus()
    await page.keyboard.press('Control+k')
    await expect(palette(page)).toBeFocused()
    await palette(page).fill('dark')
    await page.keyboard.press('Escape')
    await expect(worst).toBeFocused()

    await page.keyboard.press('Control+k')
    await palette(page).fill('dark theme')
    await page.keyboard.press('Enter')
    await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')

    // The palette takes keys until it has faded out.
    await expect(palette(page)).toHaveCount(0)
    await page.keyboard.press('g')
    await page.keyboard.press('w')
    await page.waitForURL('**/workers')
    await page.keyboard.press('Control+k')
    await expect(page.getByRole('group', { name: 'Recent' })).toContainText(batch)
    await palette(page).fill(`${batch}-3`)
    await page.keyboard.press('Enter')
    await expect(page.locator(`[data-panel="${batch}-3"]`)).toBeVisible()
    errors.expectNone()
  })

  test('the navigation opens every page', async ({ page }) => {
    const errors = watchErrors(page)
    await page.goto(service.url)
    for (const { href, label } of NAVIGATION.flatMap(({ pages }) => pages)) {
      await page.getByRole('navigation').getByRole('link', { name: label, exact: true }).click()
      await page.waitForURL((url) => url.pathname === href)
      await expect(pageHeader(page).getByRole('heading', { name: label })).toBeVisible()
      await expectLive(page)
      await expect(page.locator('#page').getByRole('alert')).toHaveCount(0)
    }
    errors.expectNone()
  })

  test('Back restores the focused link and the scroll position', async ({ page }) => {
    const errors = watchErrors(page)
    // A single row makes the page higher than this window.
    await page.setViewportSize({ width: 1280, height: 160 })
    await page.goto(`${service.url}/batches`)
    await expectLive(page)
    const row = page.locator(`[data-batch="${batch}"]`)
    const [link, run] = [row.getByRole('link', { name: batch }), row.getByRole('link').nth(1)]
    const scrollPx = () => page.evaluate(() => scrollY)
    for (const [opened, path] of [
      [link, `**/batches/${batch}`],
      // The page may contain an earlier link to the same run, which must not get the focus.
      [run, '**/runs/demo'],
    ] as const) {
      await opened.focus()
      await page.evaluate(() => scrollTo(0, 30))
      await expect.poll(scrollPx).toBe(30)
      await page.keyboard.press('Enter')
      await page.waitForURL(path)
      await expect(row).toHaveCount(0)
      await page.goBack()
      await expect(opened).toBeFocused()
      await expect.poll(scrollPx).toBe(30)
    }
    errors.expectNone()
  })

  test('the form that a link opens leaves the focus on the button of its page', async ({
    page,
  }) => {
    await page.goto(service.url)
    await page.getByRole('link', { name: 'Register server' }).click()
    await page.waitForURL('**/servers?register=1')
    await expect(page.getByRole('dialog', { name: 'Register server' })).toBeVisible()
    await page.keyboard.press('Escape')
    await expect(page.getByRole('dialog')).toHaveCount(0)
    await expect(page.getByRole('button', { name: 'Register', exact: true })).toBeFocused()
  })

  test('the first load of the overview has under 300 KB of compressed scripts', async ({
    page,
    context,
  }) => {
    const devtools = await context.newCDPSession(page)
    await devtools.send('Network.enable')
    const types = new Map<string, { type: string; encoding: string }>()
    let scriptBytes = 0
    devtools.on('Network.responseReceived', ({ requestId, type, response }) =>
      types.set(requestId, { type, encoding: response.headers['content-encoding'] ?? '' }),
    )
    devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      if (types.get(requestId)?.type === 'Script') scriptBytes += encodedDataLength
    })
    const answers: string[] = []
    page.on('response', (response) => {
      if (/\/api\/trpc\/.*batches\.list/.test(response.url()))
        answers.push(response.headers()['content-encoding'] ?? 'plain')
    })
    await page.goto(service.url, { waitUntil: 'networkidle' }).catch(() => {})
    await expect(page.getByRole('heading', { name: 'Recent batches' })).toBeVisible()
    await expectLive(page)
    const scripts = [...types.values()].filter(({ type }) => type === 'Script')
    expect(scripts.length).toBeGreaterThan(3)
    // Only scripts larger than a packet are compressed.
    expect(scripts.filter(({ encoding }) => encoding === 'br').length).toBeGreaterThan(
      scripts.length / 2,
    )
    expect(scriptBytes).toBeLessThan(300_000)
    expect(new Set(answers)).toEqual(new Set(['gzip']))
  })

  test('the overview document contains its data', async ({ browser }) => {
    const context = await browser.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(service.url)
    await expect(page.getByLabel('Service figures')).toContainText(/\/\d+\s+servers ready/)
    await expect(page.getByRole('heading', { name: 'Workers' })).toBeVisible()
    // A page can be enlarged on a phone.
    await expect(page.locator('meta[name="viewport"]')).toHaveAttribute(
      'content',
      'width=device-width, initial-scale=1',
    )
    await context.close()
  })

  test('a section that fails shows its error and can be retried, and the rest of the page stays', {
    tag: '@full',
  }, async ({ page }) => {
    // If the overview were loaded directly, its document would contain the data, so it is opened from another page.
    await page.goto(`${service.url}/runs`)
    await expectLive(page)
    await page.route(/fleet\.history/, (route) => route.abort())
    await page.getByRole('link', { name: 'Overview' }).click()
    await expect(page.getByLabel('Service figures')).toBeVisible()
    const failures = page.getByRole('alert').filter({ hasText: 'The service is unreachable' })
    await expect(failures.first()).toBeVisible()
    await expect(page.getByRole('heading', { name: 'Servers' })).toBeVisible()
    await expect(page.locator('[data-live="stale"]')).toBeVisible()
    await page.unroute(/fleet\.history/)
    await failures.first().getByRole('button', { name: 'Try again' }).click()
    await expect(page.getByText(/ 0 retries/)).toBeVisible()
    await expectLive(page)
  })

  test('data that fail to refetch are marked as stale until a refetch succeeds', {
    tag: '@full',
  }, async ({ page }) => {
    await page.goto(`${service.url}/batches`)
    await expectLive(page)
    await expect(page.locator(`[data-batch="${batch}"]`)).toBeVisible()
    const reads = /api\/trpc\/(?!live)/
    await page.route(reads, (route) => route.abort())
    await service.api.demo.load.mutate({})
    await expect(page.locator('[data-live="stale"]')).toContainText('old')
    await expect(page.locator(`[data-batch="${batch}"]`)).toBeVisible()
    await page.unroute(reads)
    await expectLive(page)
  })

  test('prints a batch as a light report without navigation, with its first groups', {
    tag: '@full',
  }, async ({ page }) => {
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.goto(`${service.url}/batches/${batch}`)
    await expect(page.locator('.recharts-surface').first()).toBeVisible()
    await expect(page.getByRole('table', { name: 'Groups in completion order' })).toContainText(
      'arithmetic-',
    )
    await page.emulateMedia({ media: 'print' })
    const head = page.locator('[data-report="head"]')
    await expect(head).toContainText(`Batch ${batch} of demo`)
    await expect(head).toContainText(`${service.url}/batches/${batch}`)
    await expect(page.locator('[data-report="timeline"] svg')).toBeVisible()
    await expect(page.locator('[data-report="groups"] tbody tr')).toHaveCount(40)
    await expect(page.getByText('the first 40 of 64; the page lists the other 24')).toBeVisible()
    await expect(page.getByRole('navigation')).toBeHidden()
    await expect(pageHeader(page)).toBeHidden()
    await expect(page.locator('.recharts-surface').first()).toBeVisible()
    await expect(page.locator('html')).toHaveAttribute('data-theme', 'light')
    const pdf = await page.pdf({ format: 'A4' })
    // A report without text and images would have about 4,000 bytes.
    expect(pdf.length).toBeGreaterThan(40_000)
    await page.emulateMedia({ media: 'screen' })
    await expect(head).toHaveCount(0)
    await expect(pageHeader(page)).toBeVisible()
    await expect(page.locator('html')).not.toHaveAttribute('data-theme', 'light')
  })
})
