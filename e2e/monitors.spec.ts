import { expect, type Page } from '@playwright/test'
import {
  startWebhookReceiver,
  type WebhookReceiver,
} from '../testkit/service/webhook-receiver/process.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { looksOf } from './fixtures/looks.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

let service: TestService
let receiver: WebhookReceiver

async function step(run: string, number: number, failing: number): Promise<void> {
  const { batchId } = await service.api.batches.submit.mutate({
    run,
    step: number,
    groupSize: 4,
    reward: { function: { name: 'gsm8k', kwargs: { method: number < 5 ? 'strict' : 'flexible' } } },
    samples: Array.from({ length: 32 }, (_, i) => ({
      uid: `q${i >> 2}`,
      dataSource: 'openai/gsm8k',
      prompt: 'What is 6 * 12?',
      response: `${'So I think. '.repeat((i * 7) % 11)}It is ${i}.\n#### ${i % 2 === 0 ? 72 : i}`,
      groundTruth: i < failing ? ({ not: 'text' } as unknown as string) : '72',
    })),
  })
  await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
}

test.beforeAll(async () => {
  ;[service, receiver] = await Promise.all([
    startTestService({ REWARDOPS_WORKERS: '1' }),
    startWebhookReceiver(),
  ])
  for (let number = 1; number <= 6; number++) await step('watched', number, 0)
  await step('watched', 7, 6)
  await step('calm', 1, 0)
  await expect
    .poll(async () => (await service.api.monitors.list.query()).open.map(({ monitor }) => monitor))
    .toContain('failures')
})
test.afterAll(() => Promise.all([service?.stop(), receiver?.stop()]))

const sheet = (page: Page, name: string) => page.getByRole('dialog', { name })

const VIEWS: { name: string; path: string; make: (page: Page) => Promise<void> }[] = [
  {
    name: 'incidents',
    path: '/monitors',
    async make(page) {
      await expect(page.getByRole('region', { name: 'Incidents' })).toContainText('Failures')
      await expect(page.locator('tr[data-monitor="failures"]').getByRole('img')).toBeVisible()
    },
  },
  {
    name: 'monitors of a run',
    path: '/runs/watched#monitors',
    async make(page) {
      const chart = page.locator('#monitor-failures')
      await expect(chart.locator('svg.recharts-surface').first()).toBeVisible()
      await expect(page.getByRole('list', { name: 'Marked steps' })).toContainText('reward changed')
    },
  },
  {
    name: 'alerts',
    path: '/monitors?tab=alerts',
    make: (page) => expect(page.getByText('No webhooks yet')).toBeVisible(),
  },
  {
    name: 'history',
    path: '/monitors?tab=history&run=watched',
    make: (page) =>
      expect(page.getByRole('cell', { name: 'Open', exact: true }).first()).toBeVisible(),
  },
]

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    test.describe(`${colorScheme}, ${width} px`, () => {
      test.use({ colorScheme, viewport: { width, height: 900 } })
      for (const { name, path, make } of looksOf(VIEWS, colorScheme, width)) {
        test(name, async ({ page }) => {
          const errors = watchErrors(page)
          await page.goto(service.url + path)
          await make(page)
          await expectFits(page)
          await expectAccessible(page)
          errors.expectNone()
        })
      }
    })
  }
}

test('leads from the overview to a monitor chart, its thresholds, and its table view', async ({
  page,
}) => {
  await page.goto(service.url)
  const attention = page.getByRole('list', { name: 'Needs attention' })
  await attention.getByRole('link', { name: /watched: failures/ }).click()
  await page.waitForURL('**/runs/watched#monitor-failures')
  const chart = page.locator('#monitor-failures')
  await expect(chart).toBeInViewport()
  await expect(chart).toContainText('Alerting')
  await chart.getByRole('button', { name: 'Show Failures as a table' }).click()
  await expect(chart.locator('tbody tr').first()).toContainText('19 %')
  await chart.getByRole('button', { name: 'Show Failures as a chart' }).click()
  await chart.getByRole('button', { name: 'Edit thresholds of failures' }).click()
  const form = sheet(page, 'Failures')
  await form.getByLabel('Alerting, %').fill('1')
  await form.getByRole('button', { name: 'Save' }).click()
  await expect(form.getByRole('alert')).toContainText('is reached before the warning')
  await expect(form.getByRole('alert')).toBeFocused()
  await form.getByLabel('Alerting, %').fill('30')
  await form.getByRole('button', { name: 'Save' }).click()
  await expect(form).toBeHidden()
  await page.goto(`${service.url}/monitors?run=watched`)
  await expect(page.locator('tr[data-monitor="failures"]')).toContainText('≥ 30 %')

  const ofAllRuns = (warning: number | null, openAfter: number | null) =>
    service.api.monitors.configure.mutate({
      ...{ run: null, monitor: 'failures', enabled: null, warning, alerting: null, openAfter },
    })
  await ofAllRuns(0.05, 3)
  const settings = await service.api.monitors.settings.query({ run: 'watched' })
  expect(settings.find(({ monitor }) => monitor === 'failures')).toMatchObject({
    ...{ warning: 0.05, alerting: 0.3, openAfter: 3 },
  })
  await ofAllRuns(null, null)
})

test('adds, tests and removes a webhook without showing its secret', { tag: '@full' }, async ({
  page,
}) => {
  await page.goto(`${service.url}/monitors?tab=alerts`)
  await page.getByRole('button', { name: 'Add webhook' }).click()
  const form = sheet(page, 'Add webhook')
  await form.getByLabel('Name').fill('team')
  await form.getByLabel('URL').fill('ftp://example.com/hook')
  await form.getByLabel('Secret').fill('nobody-sees-this')
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  await expect(form.getByRole('alert')).toContainText('http://')
  await form.getByLabel('URL').fill(`${receiver.url}/ok?key=hidden-key`)
  const servers = form.getByRole('group', { name: 'Server monitors' })
  const all = servers.getByLabel('Server monitors', { exact: true })
  await expect(all).toBeChecked()
  await servers.getByLabel('Server unavailable').uncheck()
  await expect(all).toBeChecked({ indeterminate: true })
  await all.click()
  await expect(servers.getByLabel('Server unavailable')).toBeChecked()
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  const hook = page.locator('[data-webhook="team"]')
  await expect(hook).toContainText('signed')
  await hook.getByRole('button', { name: 'Send test' }).click()
  await expect(hook.getByRole('status')).toContainText('Delivered: HTTP 200')
  await expect(hook.getByRole('status')).toContainText('thank you')
  await expect(page.getByRole('region', { name: 'Deliveries' })).toContainText('[test]')
  const html = await page.content()
  expect(html).not.toContain('nobody-sees-this')
  expect(html).not.toContain('hidden-key')
  await step('alerted', 1, 12)
  await expect(page.getByRole('region', { name: 'Deliveries' })).toContainText('Failures: alerted')
  const calls = await receiver.received()
  expect(calls.map(({ body }) => (JSON.parse(body) as { kind: string }).kind)).toEqual([
    'test',
    'opened',
  ])
  await expectAccessible(page)
  await hook.getByRole('button', { name: 'Actions for team' }).click()
  await page.getByRole('menuitem', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove webhook' }).click()
  await expect(hook).toBeHidden()
})

test('creates, edits and removes a mark by keyboard, and draws it on every chart', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs/watched`)
  const marks = page.getByRole('list', { name: 'Marked steps' })
  await expect(marks).toContainText('Step 5')
  await expect(page.locator('svg g[data-mark="5"]').first()).toBeVisible()
  await expectLive(page)
  await page.keyboard.press('m')
  await expect(page).toHaveURL(/mark=new/)
  await expect(sheet(page, 'Mark a step').getByLabel('Label', { exact: true })).toBeFocused()
  await page.keyboard.type('RM changed here')
  await page.keyboard.press('Tab')
  await page.keyboard.press('ControlOrMeta+a')
  await page.keyboard.type('3')
  await page.keyboard.press('Enter')
  await expect(marks.getByRole('button', { name: /Step 3 RM changed here/ })).toBeVisible()
  const drawn = page.locator('svg g[data-mark="3"]')
  expect(await drawn.count()).toBeGreaterThan(3)
  await expect(drawn.first()).toContainText('RM changed here')
  await page.getByRole('button', { name: 'Show Reward as a table' }).click()
  await expect(page.getByRole('region', { name: 'Reward, table' })).toContainText('RM changed here')
  await marks.getByRole('button', { name: /RM changed here/ }).focus()
  await page.keyboard.press('Enter')
  const form = sheet(page, 'Edit mark')
  await expect(form).toContainText('Created by local')
  await form.getByLabel('Note').fill('a larger one')
  await form.getByRole('button', { name: 'Save' }).press('Enter')
  await expect(form).toBeHidden()
  await marks.getByRole('button', { name: /RM changed here/ }).press('Enter')
  await expect(form.getByLabel('Note')).toHaveValue('a larger one')
  await form.getByRole('button', { name: 'Remove' }).press('Enter')
  await page.getByRole('button', { name: 'Remove mark' }).press('Enter')
  await expect(marks).not.toContainText('RM changed here')
  await expect(drawn).toHaveCount(0)
  errors.expectNone()
})
