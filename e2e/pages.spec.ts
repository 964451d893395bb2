import { readFileSync } from 'node:fs'
import { expect, type Page } from '@playwright/test'
import pg from 'pg'
import type { SampleInput } from '../server/contract/trainer.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { expectAccessible, expectFits, expectLive } from './fixtures/look.ts'
import { checkEach, EVERYTHING, type View } from './fixtures/looks.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rms: SimulatedServers[] = []
let batch = ''

function rollouts(): SampleInput[] {
  const samples = readFileSync(
    new URL('../examples/data/demo-rollouts.jsonl', import.meta.url),
    'utf8',
  )
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as SampleInput)
  samples[1] = {
    ...(samples[1] as SampleInput),
    response: 'odd \u0000 bytes \ud800 <b>here</b>\n#### 72',
  }
  samples[2] = { ...(samples[2] as SampleInput), response: 'The same again. '.repeat(2_000) }
  return samples
}

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  // The same texts fail on both servers, so that a retry fails too.
  const faults = ['--model', 'pages-rm', '--draw-by', 'text', '--faults', '{"nan":0.04}']
  rms = await Promise.all([startSimulatedServers(faults), startSimulatedServers(faults)])
  for (const [i, rm] of rms.entries()) {
    await service.api.servers.register.mutate({ name: `rm-${i + 1}`, url: rm.url, engine: 'vllm' })
  }
  const samples = rollouts()
  await service.api.batches.submit.mutate({ run: 'gsm8k-grpo', step: 1, samples })
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'gsm8k-grpo',
    step: 2,
    groupSize: 8,
    samples,
    reward: { model: rms[0]?.model ?? null },
  })
  batch = batchId
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
})
test.afterAll(async () => {
  await removeServers(service)
  await Promise.all(rms.map((rm) => rm.stop()))
})

const shows = (loaded: RegExp | string) => (page: Page) =>
  expect(page.locator('#page').getByText(loaded).first()).toBeVisible()
const showsCharts = (loaded: string) => async (page: Page) => {
  await shows(loaded)(page)
  await expect(page.locator('.recharts-surface').first()).toBeVisible()
}

const PAGES: View[] = [
  { name: 'overview', path: () => '/', make: shows('Recent batches') },
  { name: 'runs', path: () => '/runs', make: shows('gsm8k-grpo') },
  // In a full run, batches of other spec files may fill the first page of the list, so no particular batch is expected.
  { name: 'batches', path: () => '/batches', make: shows(/^Completed$/) },
  { name: 'batch', path: () => `/batches/${batch}`, make: showsCharts('Scoring servers') },
  { name: 'samples', path: () => `/samples?batch=${batch}&sort=worst`, make: shows(/^b\d+-\d+$/) },
  {
    name: 'sample',
    path: () => `/samples?batch=${batch}&sample=${batch}-1`,
    make: shows('Attempts'),
  },
  { name: 'servers', path: () => '/servers', make: shows('rm-2') },
  { name: 'server', path: () => '/servers/rm-1', make: showsCharts('Load balance') },
  { name: 'workers', path: () => '/workers', make: shows('Event-loop delay p99') },
  {
    name: 'not found',
    path: () => '/nothing/here',
    make: shows('Page not found'),
    logs: true,
  },
  {
    name: 'no such server',
    path: () => '/servers/nobody',
    make: shows('Server “nobody” not found'),
  },
  { name: 'no such batch', path: () => '/batches/b999999', make: shows('Batch not found') },
]

checkEach(PAGES, { url: () => service.url })

test('the sample panel names invisible characters, escapes markup, and unfolds long texts', async ({
  page,
}) => {
  await page.goto(`${service.url}/samples?batch=${batch}&sample=${batch}-1`)
  const panel = page.locator(`[data-panel="${batch}-1"]`)
  await expect(panel.getByText('NUL', { exact: true })).toBeVisible()
  await expect(panel.getByText('U+D800', { exact: true })).toBeVisible()
  await expect(panel.getByText('<b>here</b>')).toBeVisible()
  await panel.getByRole('button', { name: /^#2 / }).click()
  const long = page.locator(`[data-panel="${batch}-2"]`)
  await long.getByRole('button', { name: 'Show all 32,000 characters' }).click()
  await expect(long.getByRole('button', { name: 'Show less' })).toBeVisible()
})

test('a failed sample shows its reason and its attempts', async ({ page }) => {
  await page.goto(`${service.url}/batches/${batch}`)
  await page.getByRole('link', { name: /non_finite/ }).click()
  await page.locator('[data-sample]').first().getByRole('button').click()
  const panel = page.locator('[data-panel]')
  await expect(panel).toContainText('The reward model returned NaN or infinity.')
  await expect(panel).toContainText('Attempt 1')
})

test('lists and counts that are cut say so', { tag: '@full' }, async ({ page }) => {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'many-sources', step: 1, reward: { function: { name: 'gsm8k' } } },
    samples: Array.from({ length: 51 }, (_, i) => ({
      ...{ uid: 'q', dataSource: `source-${i}`, groundTruth: '1' },
      ...{ prompt: '', response: '#### 1' },
    })),
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const { id } = await service.api.alerts.create.mutate({ name: 'busy', url: 'http://127.0.0.1:9' })
  const db = new pg.Client({ connectionString: runningEmbeddedUrl(service.dataDir) as string })
  await db.connect()
  try {
    await db.query(`insert into process (host, pid, local, state, role, ended_at)
      select 'gone', n, false, 'dead', 'worker', now() from generate_series(1, 200) n`)
    await db.query(
      `with events as (
         insert into alert_event (id, kind, payload)
         select gen_random_uuid(), 'test', '{}' from generate_series(1, 1001) returning id)
       insert into alert_delivery (webhook_id, event_id, state)
       select $1, id, 'delivered' from events`,
      [id.slice(1)],
    )
    await page.goto(`${service.url}/batches/${batchId}`)
    const sources = page.locator('section', { hasText: 'Data sources' }).last()
    await expect(sources).toContainText('Largest 50')
    await page.goto(`${service.url}/workers`)
    await expect(page.getByText(/^Newest 19\d$/)).toBeVisible()
    await page.goto(`${service.url}/`)
    await expect(page.getByText(/\d alive, newest 19\d dead/)).toBeVisible()
    await page.goto(`${service.url}/monitors?tab=alerts`)
    await expect(page.locator('[data-webhook="busy"]')).toContainText(
      'Last 24 h, newest 1,000: 1,000 delivered',
    )
  } finally {
    await db.query("delete from process where host = 'gone'")
    await db.query('delete from alert_delivery where webhook_id = $1', [id.slice(1)])
    await db.query("delete from alert_event where payload::text = '{}'")
    await db.end()
    await service.api.alerts.remove.mutate({ id })
  }
})

test('keeps selected columns in the URL', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/samples?run=gsm8k-grpo&step=1&status=scored`)
  await expect(page.locator('[data-sample]').first()).toBeVisible()
  await page.getByRole('button', { name: 'Columns' }).click()
  const columns = page.getByRole('dialog', { name: 'Columns' })
  await columns
    .getByRole('list', { name: 'Other columns' })
    .getByRole('button')
    .filter({ hasText: 'rewardExtraInfo.' })
    .first()
    .click()
  await columns.getByRole('button', { name: 'Hide Data source' }).click()
  await columns.getByRole('button', { name: 'Move Score up' }).click()
  await page.keyboard.press('Escape')
  const heads = page.getByRole('table', { name: 'Samples' }).getByRole('columnheader')
  await expect(heads.filter({ hasText: 'Data source' })).toHaveCount(0)
  const order = async () => (await heads.allInnerTexts()).join()
  await expect.poll(order).toContain('Score,Status')
  const before = await order()
  await page.reload()
  await expect.poll(order).toBe(before)
})

test('every chart has a table view with the same numbers', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/batches/${batch}`)
  for (const title of ['Rewards', 'Completed groups over time']) {
    await page.getByRole('button', { name: `Show ${title} as a table` }).click()
    await expect(
      page
        .getByRole('region', { name: `${title}, table` })
        .getByRole('row')
        .nth(1),
    ).toBeVisible()
  }
})

test('the first result of a list is a few keys away, and j and k move between rows', async ({
  page,
}) => {
  const { promise: groupsMayLoad, resolve: loadGroups } = Promise.withResolvers<void>()
  const atRow = () =>
    page.evaluate(() => {
      const rows = [
        ...document.querySelectorAll(
          '#page tbody tr, #page [role="rowgroup"] > [role="row"], #page [data-row]',
        ),
      ].filter((row) => row.querySelector('a[href], button:not([role="columnheader"] *)'))
      return rows.findIndex((row) => row.contains(document.activeElement))
    })
  const quick = ['overview', 'samples', 'batch']
  const names = EVERYTHING ? [...quick, 'runs', 'batches', 'servers', 'workers'] : quick
  for (const { name, path, make } of PAGES.filter((one) => names.includes(one.name))) {
    await test.step(name, async () => {
      await page.goto(`${service.url}${typeof path === 'string' ? path : path()}`)
      await make?.(page)
      await expectLive(page)
      for (const key of ['Tab', 'Tab']) await page.keyboard.press(key)
      await expect(page.getByRole('button', { name: 'Skip to results' })).toBeFocused()
      await page.keyboard.press('Enter')
      await expect.poll(atRow).toBe(0)
      if (name === 'overview') {
        const cards = page.getByRole('list', { name: 'Runs', exact: true }).getByRole('listitem')
        await expect(cards.first().getByRole('link').first()).toBeFocused()
      }
    })
  }
  await page.route(/batches\.groups/, async (route) => {
    await groupsMayLoad
    await route.continue()
  })
  await page.goto(`${service.url}/batches/${batch}`)
  const group = page.getByRole('table', { name: 'Groups in completion order' }).getByRole('row')
  await expect(group.nth(1)).toBeVisible()
  await expectLive(page)
  await page.keyboard.press('j')
  await expect(group.nth(1)).toBeFocused()
  loadGroups()
  await expect(group.nth(1).getByRole('link').first()).toBeFocused()
  await page.goto(`${service.url}/batches?run=none`)
  await expectLive(page)
  for (const key of ['Tab', 'Tab', 'Enter']) await page.keyboard.press(key)
  await expect(page.locator('#page')).toBeFocused()
  await page.goto(`${service.url}/batches`)
  await shows(/^Completed$/)(page)
  await expectLive(page)
  await page.keyboard.press('j')
  await expect.poll(atRow).toBe(0)
  await page.keyboard.press('j')
  await expect.poll(atRow).toBe(1)
  await page.keyboard.press('k')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/batches\/b\d+$/)
})

test('the palette opens pages, ? lists the shortcuts, f focuses the filter', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(service.url)
  await expectLive(page)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill(batch)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/batches/${batch}`)
  const keys = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  await page.keyboard.press('?')
  await expect(keys).toContainText('Open command palette')
  await expectAccessible(page)
  await page.keyboard.press('Escape')
  await expect(keys).toHaveCount(0)
  await page.goto(`${service.url}/samples`)
  await expect(page.locator('[data-sample]').first()).toBeVisible()
  await expectLive(page)
  await page.keyboard.press('f')
  await expect(page.getByLabel('Search texts')).toBeFocused()
  await page.goto(`${service.url}/rewards`)
  await expectLive(page)
  // The shortcut works after the data have arrived and the filter is rendered.
  await expect(page.getByRole('heading', { name: 'Managers' })).toBeVisible()
  await page.keyboard.press('f')
  await page.keyboard.type('openai/')
  await expect(page).toHaveURL(/named=openai%2F$/)
  await expect(page.getByRole('status').filter({ hasText: /^1 of \d+$/ })).toBeVisible()
  await expect(page.getByRole('heading', { name: 'Rules' })).toBeVisible()
  await expect(page.getByRole('heading', { name: 'Managers' })).toHaveCount(0)
  // A list of two workers has no filter, so the list of shortcuts has no entry for it.
  await page.goto(`${service.url}/workers`)
  await expectLive(page)
  await page.keyboard.press('?')
  await expect(keys).toContainText('Everywhere')
  await expect(keys).not.toContainText('Filter')
})

test('keeps the selected theme without a flash of the other', { tag: '@full' }, async ({
  page,
}) => {
  await page.emulateMedia({ colorScheme: 'light' })
  await page.goto(service.url)
  await expectLive(page)
  await page.getByRole('button', { name: 'Dark' }).click()
  const background = () =>
    page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const dark = await background()
  await page.route('**/_next/static/chunks/*.js', (route) => route.abort())
  await page.reload({ waitUntil: 'domcontentloaded' })
  expect(await background()).toBe(dark)
})

test('opens the navigation with a button at 390 px', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 })
  await page.goto(`${service.url}/batches`)
  await expectLive(page)
  await page.getByRole('button', { name: 'Navigation' }).click()
  await expectAccessible(page)
  await page.getByRole('dialog').getByRole('link', { name: 'Workers' }).click()
  await page.waitForURL('**/workers')
  await expect(page.getByRole('dialog')).toHaveCount(0)
})

test('a phone reaches all links of a run, the way back, and the palette', { tag: '@full' }, async ({
  page,
}) => {
  await page.setViewportSize({ width: 390, height: 844 })
  await page.goto(`${service.url}/runs/gsm8k-grpo`)
  await expectLive(page)
  await page.getByRole('button', { name: 'More actions' }).click()
  await expect(page.getByRole('menuitem')).toHaveText(['Prompts', 'Samples', 'Batches', 'Compare'])
  await page.getByRole('menuitem', { name: 'Prompts' }).click()
  await page.waitForURL('**/prompts')
  await page.getByRole('link', { name: 'Back to gsm8k-grpo' }).click()
  await page.waitForURL('**/runs/gsm8k-grpo')
  await page.getByRole('button', { name: 'Navigation' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Go to…' }).click()
  await page.getByRole('combobox', { name: /^Search pages/ }).fill('samples of gsm8k')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/samples\?run=gsm8k-grpo/)
  await expectFits(page)
})
