import { type Browser, expect, type Page } from '@playwright/test'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible, looksOf } from './fixtures/looks.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

const ADMIN = 'pT4wZ81mQx7RkV0s9LcB'
let service: TestService

test.beforeAll(async () => {
  service = await startTestService({ REWARDOPS_API_KEYS: ADMIN, REWARDOPS_WORKERS: '1' })
})
test.afterAll(() => service.stop())

async function signedIn(browser: Browser, key: string, path = '/'): Promise<Page> {
  const page = await (await browser.newContext()).newPage()
  await page.goto(`${service.url}/login?next=${encodeURIComponent(path)}`)
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL((url) => url.pathname === new URL(path, service.url).pathname)
  return page
}

async function makeKey(page: Page, name: string, role: string): Promise<string> {
  await page.getByRole('button', { name: 'Create key' }).click()
  const sheet = page.getByRole('dialog')
  await sheet.getByLabel('Name').fill(name)
  await sheet.getByRole('radio', { name: role }).check()
  await sheet.getByRole('button', { name: 'Create key' }).click()
  const key = (await sheet.locator('[data-new-key]').textContent()) ?? ''
  expect(key).toMatch(/^rwo_[\w-]{43}$/)
  await expectStateAccessible(page)
  await sheet.getByRole('button', { name: 'Done' }).click()
  await expect(sheet).toBeHidden()
  await expect(page.getByRole('button', { name: 'Create key' })).toBeFocused()
  return key
}

// These tests run first, because the onboarding page is shown only while there are no batches.
test.describe('sign-in', () => {
  test('requires a key on every page, then redirects to the requested page', async ({ page }) => {
    const errors = watchErrors(page)
    await page.goto(`${service.url}/batches?status=running`)
    await page.waitForURL(/\/login\?next=%2Fbatches%3Fstatus%3Drunning$/)
    await expectAccessible(page)
    errors.expectNone()

    await page.getByLabel('API key').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await expect(page.getByRole('alert').filter({ hasText: /key/i })).toBeVisible()

    await page.getByLabel('API key').fill(ADMIN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(/\/batches\?status=running$/)
    await expect(page.getByText('No matching batches')).toBeVisible()
    await expectLive(page)

    await page.goto(service.url)
    await expect(page.locator('[data-snippet="curl"]')).toContainText('authorization: Bearer')

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL(/\/login/)
    await page.goto(`${service.url}/workers`)
    await page.waitForURL(/\/login\?next=%2Fworkers$/)

    // A link may not lead to another site after the sign-in.
    await page.goto(`${service.url}/login?next=${encodeURIComponent('//foreign.invalid/x')}`)
    await page.getByLabel('API key').fill(ADMIN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(`${service.url}/`)
  })

  test('the overview document contains data only for requests with a key', async ({ request }) => {
    const document = async () => (await request.get(service.url)).text()
    expect(await document()).not.toContain('figures')
    const signIn = await request.post(`${service.url}/api/trpc/session.signIn`, {
      data: { key: ADMIN },
    })
    expect(signIn.ok()).toBe(true)
    expect(await document()).toContain('figures')
  })

  test('an expired session leads to the sign-in page and back to the same URL', {
    tag: '@full',
  }, async ({ page, context }) => {
    await page.goto(`${service.url}/login`)
    await page.getByLabel('API key').fill(ADMIN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(`${service.url}/`)
    await page.goto(`${service.url}/batches?status=completed`)
    await expectLive(page)
    await context.clearCookies()
    await choose(page.getByLabel('Status'), 'Failed')
    await page.waitForURL(/\/login\?next=%2Fbatches%3Fstatus%3Dfailed$/)
    await page.getByLabel('API key').fill(ADMIN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(/\/batches\?status=failed$/)
    await expect(page.getByText('No matching batches')).toBeVisible()
    await expectLive(page)
  })
})

test.describe('settings', () => {
  test.beforeAll(async () => {
    const samples = ['#### 42', '#### 41', 'no', '#### 42'].map((response) => ({
      ...{ uid: 'q', dataSource: 'openai/gsm8k', prompt: '6 * 7?', groundTruth: '42' },
      response,
    }))
    for (const run of ['doomed', 'kept']) {
      const { batchId } = await service.api.batches.submit.mutate({
        run,
        step: 1,
        samples,
      } as never)
      await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    }
  })

  test('creates a key that is shown once, limited to its role, and revoked while a page is open', async ({
    browser,
  }) => {
    const admin = await signedIn(browser, ADMIN, '/settings')
    const errors = watchErrors(admin)
    await expect(admin.getByText('API keys required')).toBeVisible()
    await expect(admin.getByText('configured key 1').first()).toBeVisible()
    const key = await makeKey(admin, 'wall display', 'viewer')
    await expect(admin.locator('[data-key="wall display"]')).toContainText('Viewer')
    expect(await admin.content()).not.toContain(key.slice(8))

    const viewer = await signedIn(browser, key, '/servers')
    await expectLive(viewer)
    await expect(viewer.getByTitle('Signed in as')).toHaveText('wall displayViewer')
    const register = viewer.getByRole('button', { name: /^Register server/ })
    await expect(register).toBeDisabled()
    await expect(register).toHaveAttribute('title', /Requires the role admin.*wall display.*viewer/)
    await register.focus()
    await viewer.keyboard.press('Enter')
    await expect(viewer.getByRole('dialog')).toHaveCount(0)
    const refused = await viewer.request.post(`${service.url}/api/trpc/servers.register`, {
      data: { name: 'rm', url: 'http://127.0.0.1:1' },
    })
    expect(refused.status()).toBe(403)
    expect(await refused.text()).toContain('"forbidden_role"')

    await admin.getByRole('button', { name: 'Actions for wall display' }).click()
    await admin.getByRole('menuitem', { name: 'Revoke…' }).click()
    await admin.getByRole('button', { name: 'Revoke key' }).click()
    await expect(admin.locator('[data-key="wall display"]')).toContainText('Revoked')
    // No interaction is needed, because revoking the key ended the viewer's event stream.
    await viewer.waitForURL(/\/login\?next=%2Fservers$/)
    const next = await viewer.request.get(`${service.url}/api/trpc/batches.list`)
    expect(next.status()).toBe(401)
    await viewer.getByLabel('API key').fill(key)
    await viewer.getByRole('button', { name: 'Sign in' }).click()
    await expect(viewer.getByRole('alert').filter({ hasText: 'revoked' })).toBeVisible()

    await admin.getByRole('button', { name: 'Audit', exact: true }).click()
    await choose(admin.getByLabel('Action', { exact: true }), 'keys.revoke')
    await expect(admin).toHaveURL(/tab=audit&action=keys\.revoke$/)
    const row = admin.getByRole('row').filter({ hasText: 'wall display' })
    await expect(row).toHaveCount(1)
    await expect(row).toContainText('configured key 1')
    await expect(row).toContainText(/state\s*active → revoked/)
    errors.expectNone()
  })

  test('rotates a key, and ends the session of another browser', { tag: '@full' }, async ({
    browser,
  }) => {
    const admin = await signedIn(browser, ADMIN, '/settings')
    const errors = watchErrors(admin)
    const key = await makeKey(admin, 'kiosk', 'viewer')
    const kiosk = await signedIn(browser, key, '/workers')
    await expectLive(kiosk)

    await admin.getByRole('button', { name: 'Actions for kiosk' }).click()
    await admin.getByRole('menuitem', { name: 'Rotate…' }).click()
    const sheet = admin.getByRole('dialog')
    await choose(sheet.getByLabel('Previous key'), 'Keep for an hour')
    // A sheet that closes before the answer arrives would lose the new key.
    const { promise: closing, resolve: pressed } = Promise.withResolvers<void>()
    await admin.route(/keys\.rotate/, async (route) => {
      await closing
      await route.continue()
    })
    await sheet.getByRole('button', { name: 'Rotate key' }).click()
    await admin.keyboard.press('Escape')
    pressed()
    await expect(sheet.locator('[data-new-key]')).not.toHaveText(key)
    await sheet.getByRole('button', { name: 'Done' }).click()
    const old = await kiosk.request.get(`${service.url}/api/trpc/workers.list`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(old.status()).toBe(200)

    await admin.reload()
    await expectFits(admin)
    await expectStateAccessible(admin)
    await admin.getByRole('button', { name: 'End session of kiosk' }).click()
    // No interaction is needed, because ending the session ended the page's event stream.
    await kiosk.waitForURL(/\/login\?next=%2Fworkers$/)
    await expect(admin.getByRole('button', { name: 'End session of kiosk' })).toHaveCount(0)
    errors.expectNone()
  })

  test('a viewer reads samples and settings, and changes nothing', { tag: '@full' }, async ({
    browser,
  }) => {
    const admin = await signedIn(browser, ADMIN, '/settings')
    const viewer = await signedIn(browser, await makeKey(admin, 'wall screen', 'viewer'))
    await readsSamplesOnly(viewer)
    await viewer.goto(`${service.url}/settings?tab=audit`)
    await expect(viewer.getByText('The audit log is for admins only')).toBeVisible()
    await expectStateAccessible(viewer)
  })

  async function readsSamplesOnly(viewer: Page): Promise<void> {
    const why = /Requires the role trainer.*wall screen.*viewer/
    const id = (await service.api.samples.list.query({ limit: 1 })).items[0]?.id as string
    await service.api.annotations.add.mutate({ samples: [id], label: 'odd', note: null })
    await viewer.goto(`${service.url}/samples?sample=${id}`)
    const panel = viewer.getByRole('complementary', { name: `Sample ${id}` })
    for (const name of [/^Annotate/, 'Edit “odd”', 'Delete “odd”']) {
      await expect(panel.getByRole('button', { name })).toBeDisabled()
      await expect(panel.getByRole('button', { name })).toHaveAttribute('title', why)
    }
    await expect(panel.getByLabel('Label')).toBeDisabled()
    await viewer.keyboard.press('Escape')
    await viewer.getByRole('checkbox', { name: `Select ${id}` }).check()
    const bar = viewer.getByRole('region', { name: 'Selected samples' })
    for (const name of [/^Annotate/, /^Rescore/])
      await expect(bar.getByRole('button', { name })).toHaveAttribute('title', why)
    await viewer.getByRole('button', { name: 'Saved views' }).click()
    const save = viewer.getByRole('menuitem', { name: 'Save as new view…' })
    await expect(save).toHaveAttribute('title', why)
    await expect(save).toBeDisabled()
    await expectStateAccessible(viewer)
  }

  test('sets limits of a run, previews retention, and deletes a run by its name', {
    tag: '@full',
  }, async ({ browser }) => {
    const page = await signedIn(browser, ADMIN, '/settings?tab=limits')
    await page.getByRole('button', { name: 'Add run' }).click()
    await page.getByLabel('Run', { exact: true }).fill('kept')
    await page.getByLabel('Queued samples').fill('lots')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByRole('alert').filter({ hasText: 'whole number' })).toBeVisible()
    await expect(page.getByLabel('Queued samples')).toBeFocused()
    await page.getByLabel('Queued samples').fill('1,000')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByRole('row').filter({ hasText: 'kept' })).toContainText('0 of 1,000')

    await page.getByRole('button', { name: 'Retention', exact: true }).click()
    await expect(page.getByText('No data is old enough.')).toBeVisible()
    await page.getByLabel('Texts, days').fill('0')
    await expect(page.getByRole('alert').filter({ hasText: 'whole days' })).toBeVisible()
    await page.getByLabel('Texts, days').fill('30')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByText(/Changed .* by configured key 1/)).toBeVisible()

    const data = (run: string) => page.getByRole('button', { name: `Actions for ${run}` })
    await data('kept').click()
    await page.getByRole('menuitem', { name: 'Keep forever' }).click()
    await expect(page.getByRole('row').filter({ hasText: 'Kept forever' })).toBeVisible()
    await data('doomed').click()
    let isRefusing = true
    await page.route(/retention\.preview/, (route) =>
      isRefusing ? route.abort() : route.continue(),
    )
    await page.getByRole('menuitem', { name: 'Delete run…' }).click()
    const window = page.getByRole('alertdialog')
    await expect(window.getByRole('alert')).toContainText('The service is unreachable')
    isRefusing = false
    await window.getByRole('button', { name: 'Try again' }).click()
    await expect(window).toContainText('1 batch with 4 samples')
    await window.getByRole('button', { name: 'Delete run' }).click()
    await expect(window).toContainText('The name does not match.')
    await window.getByLabel('Confirm run name').fill('doomed')
    await expectAccessible(page)
    await window.getByRole('button', { name: 'Delete run' }).click()
    const removal = page.locator('[data-removal]').first()
    await expect(removal).toContainText('Run doomed')
    await expect(removal).toContainText('Done')
    await expect(data('doomed')).toHaveCount(0)
    await expect(data('kept')).toBeVisible()
  })

  test.describe('without environment keys', () => {
    let open: TestService
    test.beforeAll(async () => {
      open = await startTestService()
    })
    test.afterAll(() => open.stop())

    test('requires keys after an admin key was entered, and continues with it', {
      tag: '@full',
    }, async ({ browser }) => {
      const page = await (await browser.newContext()).newPage()
      await page.goto(`${open.url}/settings`)
      await expect(page.getByText('API keys not required')).toBeVisible()
      const key = await makeKey(page, 'ops', 'admin')
      await page.goto(`${open.url}/settings`)
      await expect(page.getByText('API keys not required')).toBeVisible()

      const other = await (await browser.newContext()).newPage()
      await other.goto(`${open.url}/servers`)
      await expectLive(other)
      await page.getByRole('button', { name: 'Require API keys…' }).click()
      const sheet = page.getByRole('dialog', { name: 'Require API keys' })
      await sheet.getByLabel('Admin key without expiry').fill('rwo_wrong')
      await sheet.getByRole('button', { name: 'Require API keys' }).click()
      await expect(sheet.getByRole('alert')).toContainText('The key is unknown')
      await sheet.getByLabel('Admin key without expiry').fill(key)
      await sheet.getByRole('button', { name: 'Require API keys' }).click()
      await expect(page.getByText('API keys required')).toBeVisible()
      await expect(page.getByTitle('Signed in as')).toHaveText('opsAdmin')
      await other.waitForURL(/\/login\?next=%2Fservers$/)
    })
  })

  const TABS = ['access', 'retention', 'audit', 'limits', 'alerts', 'about'] as const
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 390]) {
      const tabs = looksOf(TABS, colorScheme, width)
      if (tabs.length === 0) continue
      test(`settings, ${colorScheme}, ${width} px wide`, { tag: '@full' }, async ({ browser }) => {
        const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } })
        const page = await context.newPage()
        await page.request.post(`${service.url}/api/trpc/session.signIn`, { data: { key: ADMIN } })
        for (const tab of tabs) {
          await page.goto(`${service.url}/settings?tab=${tab}`)
          await expect(page.getByRole('status', { name: 'Loading' })).toHaveCount(0)
          await expectFits(page)
          await expectAccessible(page)
        }
      })
    }
  }
})
