import { expect, type Page } from '@playwright/test'
import { freePort } from '../testkit/processes/port.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectFits, pageHeader, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible } from './fixtures/looks.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rm: SimulatedServers
/** Two servers with raw scores, one with squashed scores, one that requires a key. */
let sims: SimulatedServers[] = []
test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  ;[rm, ...sims] = await Promise.all([
    startSimulatedServers(['--model', 'first-rm']),
    startSimulatedServers(['--servers', '2']),
    startSimulatedServers(['--activation', 'ignored', '--model', 'squashing-rm']),
    startSimulatedServers(['--api-key', 'secret', '--model', 'locked-rm']),
  ])
})
test.afterAll(async () => {
  await removeServers(service)
  await Promise.all([rm, ...sims].map((each) => each.stop()))
})

const addressOf = (i: number, server = 0) => sims[i]?.urls[server] as string

async function act(page: Page, name: string, item: RegExp): Promise<void> {
  await page.getByRole('button', { name: `Actions for ${name}` }).click()
  await page.getByRole('menuitem', { name: item }).click()
}

const RAW_WORDS =
  /half_open|slow_start|not_applicable|black_hole|tie_collapse|sticky_retries|masked_client|squashed_scores|least_work|llamacpp|sglang|undefined|NaN|\bnull\b/

test('shows errors of a registration at their fields, saves anyway on request, and runs actions of its row', async ({
  page,
}) => {
  await page.goto(`${service.url}/servers`)
  await page.getByRole('button', { name: 'Register server' }).click()
  const form = page.getByRole('dialog', { name: 'Register server' })
  await expectAccessible(page)

  const url = form.getByLabel('URL', { exact: true })
  await form.getByRole('button', { name: 'Register' }).press('Enter')
  await expect(url).toHaveAttribute('aria-invalid', 'true')
  await expect(form.getByLabel('Name', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  await expect(url).toBeFocused()
  await expect(url).toBeInViewport()

  await form.getByLabel('Name', { exact: true }).fill('loading')
  await form.getByLabel('URL', { exact: true }).fill('file:///etc/passwd')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByText(/http:\/\/ or https:\/\//)).toBeVisible()
  const unreachable = `http://127.0.0.1:${await freePort()}`
  await form.getByLabel('URL', { exact: true }).fill(unreachable)
  await choose(form.getByLabel('Engine', { exact: true }), 'vLLM')
  await form.getByLabel('Model', { exact: true }).fill(rm.model)
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByRole('alert').first()).toContainText('select “Save and keep probing”')
  await expect(url).toHaveAttribute('aria-invalid', 'true')
  await expect(url).toBeFocused()
  await expect(url).toBeInViewport()
  await expectStateAccessible(page)

  await form.getByLabel('Save and keep probing').check()
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form).toHaveCount(0)
  const loading = page.locator('[data-server="loading"]')
  await expect(loading).toContainText('Unreachable')

  const errors = watchErrors(page)
  await page.getByRole('button', { name: 'Register', exact: true }).click()
  await form.getByLabel('URL', { exact: true }).fill(rm.url)
  await form.getByLabel('Name', { exact: true }).fill('rm-1')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form).toHaveCount(0)
  const row = page.locator('[data-server="rm-1"]')
  await expect(row).toContainText('Ready')
  await expect(row).toContainText('vLLM')

  await act(page, 'rm-1', /Drain/)
  await expectStateAccessible(page)
  await page.getByRole('button', { name: 'Drain', exact: true }).click()
  await expect(row).toContainText(/Drain(ing|ed)/)
  await act(page, 'rm-1', /Resume/)
  await expect(row).toContainText('Ready')
  await act(page, 'rm-1', /Probe now/)
  await act(page, 'loading', /Remove/)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await expect(loading).toBeVisible()
  await act(page, 'loading', /Remove/)
  await page.getByRole('button', { name: 'Remove server' }).click()
  await expect(loading).toHaveCount(0)

  // The pool has one server left. Its chosen policy can be reset.
  const policy = page.getByLabel(`Balancing policy of ${rm.model}`)
  await expect(policy).toHaveCount(0)
  await service.api.pools.update.mutate({ model: rm.model, policy: 'least_connections' })
  await page.reload()
  await expect(policy).toHaveText('Least connections')
  await choose(policy, 'Least work (default)')
  await expect(policy).toHaveCount(0)
  errors.expectNone()
})

test('quarantines a server whose scores are not raw until a user trusts it', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/servers?register=1`)
  const form = page.getByRole('dialog', { name: 'Register server' })
  await form.getByLabel('URL', { exact: true }).fill(addressOf(1))
  await form.getByLabel('Name', { exact: true }).fill('squasher')
  await expect(form.getByText('Trust anyway')).toHaveCount(0)
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByText('squasher is registered and quarantined')).toBeVisible()
  await expect(form).toContainText('sigmoid or softmax')
  await expectAccessible(page)
  await form.getByRole('button', { name: 'Keep quarantined' }).click()
  const row = page.locator('[data-server="squasher"]')
  await expect(row).toContainText('Quarantined')
  await expect(row).toContainText('Squashed')

  await row.getByRole('link', { name: 'squasher' }).click()
  await page.waitForURL('**/servers/squasher')
  await expect(page.locator('[data-monitor="squashed_scores"]')).toContainText('self-test')
  await page.getByRole('button', { name: 'Trust anyway…' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Trust anyway' }).click()
  await expect(pageHeader(page).getByText('Ready')).toBeVisible()
  await expect(page.locator('#page').getByText('Trusted anyway').first()).toBeVisible()
  await act(page, 'squasher', /Revoke trust/)
  await expect(pageHeader(page).getByText('Quarantined')).toBeVisible()
  await act(page, 'squasher', /Remove/)
  await page.getByRole('button', { name: 'Remove server' }).click()
  await page.waitForURL('**/servers')
  await expect(row).toHaveCount(0)
  errors.expectNone()
})

test('shows a refused key at its field', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/servers?register=1`)
  const form = page.getByRole('dialog', { name: 'Register server' })
  await form.getByLabel('URL', { exact: true }).fill(addressOf(2))
  await form.getByLabel('Name', { exact: true }).fill('locked')
  await form.getByLabel('API key', { exact: true }).fill('wrong')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form.getByLabel('API key', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  await form.getByLabel('API key', { exact: true }).fill('secret')
  await form.getByLabel('Requests per minute').fill('6,000')
  const template = form.getByLabel('Chat template')
  await template.fill('{% for message in messages %}')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(template).toHaveAttribute('aria-invalid', 'true')
  await template.fill('{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}')
  await form.getByRole('button', { name: 'Register' }).click()
  await expect(form).toHaveCount(0)
  const row = page.locator('[data-server="locked"]')
  await expect(row).toContainText('Ready')
  await expect(row).toContainText('6,000 requests/min')
  let isRefusing = true
  await page.route(/servers\.get/, (route) => (isRefusing ? route.abort() : route.continue()))
  await act(page, 'locked', /Edit/)
  const edit = page.getByRole('dialog', { name: 'Edit locked' })
  await expect(edit.getByRole('alert')).toContainText('The service is unreachable')
  isRefusing = false
  await edit.getByRole('button', { name: 'Try again' }).click()
  await expect(edit.getByLabel('API key', { exact: true })).toHaveValue('')
  await expect(edit.getByLabel('Chat template')).toHaveValue(/<\{\{ m\.role \}\}>/)
  await edit.getByLabel('Concurrency limit').fill('12')
  await edit.getByRole('button', { name: 'Save' }).click()
  await expect(edit).toHaveCount(0)
  await expect(row).toContainText('0/12')
  await expect(row).toContainText('Fixed limit')
  await act(page, 'locked', /Probe now/)
  await expect(row).toContainText('Ready')
})

test('puts a server to sleep and wakes it, with evidence in its history', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await service.api.servers.register.mutate({ name: 'sim:1', url: addressOf(0) })
  await page.goto(`${service.url}/servers/sim%3A1`)
  const state = pageHeader(page)
  await expect(state.getByText('Ready')).toBeVisible()
  await act(page, 'sim:1', /Put to sleep/)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Put to sleep', exact: true }).click()
  await expect(state.getByText('Asleep')).toBeVisible()
  await expect(page.getByRole('alertdialog')).toHaveCount(0)
  await state.getByRole('button', { name: 'Wake' }).click()
  await choose(page.getByLabel('Minimum time awake'), '30 minutes')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Wake', exact: true }).click()
  await expect(state.getByText('Ready')).toBeVisible({ timeout: 15_000 })
  await expect(state).toContainText('Awake for 29 min more')
  await expect(page.getByRole('alertdialog')).toHaveCount(0)

  const asleep = page.locator('[data-event="sleeping"]').first()
  await asleep.getByRole('button').click()
  await expect(page.getByText('Sleep time')).toBeVisible()
  await page.getByRole('button', { name: 'Health', exact: true }).click()
  await expect(page).toHaveURL(/events=health/)
  await expect(page.getByText('No health changes.', { exact: false })).toBeVisible()
  await page.reload()
  await expect(page.getByRole('button', { name: 'Health', exact: true })).toHaveAttribute(
    'aria-pressed',
    'true',
  )
  errors.expectNone()
})

test('a server page under load shows figures, charts with table views, balance and outlier detection', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  for (const [i, url] of (sims[0]?.urls ?? []).entries()) {
    await service.api.servers.register.mutate({ name: `pair-${i + 1}`, url, model: 'simulated-rm' })
  }
  await sims[0]?.control({ faults: { error500: 0.1 } }, 1)
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'pair', step: 1, groupSize: 4, reward: { model: 'simulated-rm' } },
    samples: Array.from({ length: 400 }, (_, i) => ({
      ...{ uid: `q${Math.floor(i / 4)}`, dataSource: 'openai/gsm8k' },
      ...{ prompt: `What is ${i} + 1?`, response: `#### ${i + 1}` },
    })),
  })
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  await page.goto(`${service.url}/servers/pair-2`)
  await expect(page.getByLabel('Figures of pair-2')).toContainText('since registration')
  await expect(page.locator('.recharts-surface')).toHaveCount(3)
  for (const title of ['Latency', 'Requests per minute', 'Load balance']) {
    await page.getByRole('button', { name: `Show ${title} as a table` }).click()
    await expect(
      page
        .getByRole('region', { name: `${title}, table` })
        .getByRole('row')
        .nth(1),
    ).toBeVisible()
  }
  await expect(page.getByRole('region', { name: 'Load balance, table' })).toContainText('pair-1')
  const workers = await service.api.workers.list.query()
  await expect(page.locator(`[data-process="${workers[0]?.id}"]`)).toBeVisible()
  await expect(page.getByRole('region', { name: 'Pool calibration' })).toContainText('Raw')
  expect(await page.locator('#page').innerText()).not.toMatch(RAW_WORDS)
  await expectAccessible(page)
  errors.expectNone()

  await page.goto(`${service.url}/servers`)
  const policy = page.getByLabel('Balancing policy of simulated-rm')
  await choose(policy, 'Round robin')
  await page.reload()
  await expect(policy).toHaveText('Round robin')
  await expect(page.locator('#page')).toContainText(/load balance (even|\d)/)
  expect(await page.locator('#page').innerText()).not.toMatch(RAW_WORDS)
  await page.setViewportSize({ width: 390, height: 844 })
  await expect(page.locator('li[data-server="pair-1"]')).toBeVisible()
  await expectFits(page)
  await expectAccessible(page)
})

test('follows the log of a launched server', { tag: '@full' }, async ({ page }) => {
  const errors = watchErrors(page)
  const port = await freePort()
  await service.api.servers.launch.mutate({
    ...{ name: 'launched', engine: 'vllm', port, model: 'launched-rm' },
    command: [
      process.execPath,
      'testkit/simulated-rm/main.ts',
      ...['--port', String(port), '--model', 'launched-rm'],
    ],
    cwd: process.cwd(),
  })
  await page.goto(`${service.url}/servers/launched`)
  await expect(pageHeader(page).getByText('Ready')).toBeVisible({ timeout: 20_000 })
  await expect(page.getByRole('region', { name: 'Launch log' })).toContainText('launched-rm')
  await expect(page.locator('[data-event="registering"]').first()).toBeVisible()
  await expectAccessible(page)
  errors.expectNone()
})

test('shows errors for an unknown server and for a failed query', { tag: '@full' }, async ({
  page,
}) => {
  await page.goto(`${service.url}/servers/nobody`)
  await expect(page.getByText('Server “nobody” not found')).toBeVisible()
  await page.getByRole('link', { name: 'View servers' }).click()
  await page.waitForURL('**/servers')
  await page.route('**/api/trpc/**servers.get**', (route) => route.abort())
  await page.goto(`${service.url}/servers/rm-1`)
  await expect(page.getByText('The service is unreachable')).toBeVisible()
  await expectAccessible(page)
  await expect(page.getByRole('button', { name: 'Try again' })).toBeVisible()
  await page.unroute('**/api/trpc/**servers.get**')
  await page.reload()
  await expect(pageHeader(page).getByText('Ready')).toBeVisible()
})

test('shows the reason of a refused action, in its dialog and next to the row', {
  tag: '@full',
}, async ({ page }) => {
  await service.api.servers.register.mutate({ name: 'going', url: addressOf(0) })
  await page.goto(`${service.url}/servers`)
  const row = page.locator('[data-server="going"]')
  await expect(row).toContainText('Ready')
  // Live updates are paused, so that the page misses a change by another user.
  await page.locator('[data-live]').first().click()
  await service.api.servers.remove.mutate({ name: 'going' })
  await act(page, 'going', /Drain/)
  await page.getByRole('button', { name: 'Drain', exact: true }).click()
  const dialog = page.getByRole('alertdialog')
  await expect(dialog.getByRole('alert')).toContainText('Server not found')
  await expectAccessible(page)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await expect(page.locator('[data-notes="going"]')).toContainText(
    'servers.list shows existing servers',
  )
})
