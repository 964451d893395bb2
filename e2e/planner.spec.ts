import { expect, type Page } from '@playwright/test'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { choose } from './fixtures/choose.ts'
import { expectLive } from './fixtures/look.ts'
import { checkEach, type View } from './fixtures/looks.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rm: SimulatedServers
let batchId = ''

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  rm = await startSimulatedServers(['--latency', 'uniform:20,200'])
  const { api } = service
  await api.servers.register.mutate({ name: 'rm', url: rm.url, engine: 'vllm' })
  for (const step of [1, 2]) {
    const submitted = await api.batches.submit.mutate({
      run: 'recorded',
      step,
      groupSize: 4,
      reward: { model: rm.model },
      samples: Array.from({ length: 64 }, (_, i) => ({
        uid: `q${i >> 2}`,
        dataSource: 'recorded',
        prompt: 'A question.',
        response: `Answer ${i} of step ${step}.`,
      })),
    })
    batchId = submitted.batchId
    await api.batches.wait.query({ batchId, waitMs: 30_000 })
  }
})
test.afterAll(async () => {
  await removeServers(service)
  await rm.stop()
})

const planned = (page: Page) => page.locator('[data-planned="new"]')
const row = (page: Page, strategy: string) => page.locator(`tr[data-strategy="${strategy}"]`)

const VIEWS: View[] = [
  {
    name: 'default plan',
    path: () => '/planner',
    async make(page) {
      await expect(planned(page)).toContainText('With 256 concurrent rewards, the step time is')
      await expect(row(page, 'both')).toContainText('34 % less')
    },
  },
  {
    name: 'a recorded batch',
    path: () => `/planner?batch=${batchId}&rollout=1&logprob=1&update=2&limits=8,none`,
    make: (page) => expect(planned(page)).toContainText('64 samples per step'),
  },
  {
    name: 'the drawn steps as a table',
    path: () => '/planner?steps=3',
    async make(page) {
      await page.getByRole('button', { name: 'as a table' }).click()
      await expect(page.getByRole('cell', { name: 'Reward wait' }).first()).toBeVisible()
    },
  },
  {
    name: 'no batch selected',
    path: () => '/planner?source=batch',
    make: (page) => expect(page.locator('#page').getByText('Select a batch')).toBeVisible(),
  },
  {
    name: 'an invalid field',
    path: () => '/planner?prompts=many',
    make: (page) => expect(page.getByText('Enter a whole number from 1 to 65,536.')).toBeVisible(),
  },
]

checkEach(VIEWS, { url: () => service.url, widePx: 1280 })

test('leads from a batch to its plan and back', async ({ page }) => {
  const { promise: streamMayOpen, resolve: openStream } = Promise.withResolvers<void>()
  await page.route(/live\.events/, async (route) => {
    await streamMayOpen
    await route.continue()
  })
  await page.goto(`${service.url}/batches/${batchId}`)
  const plan = page.getByRole('link', { name: 'Plan', exact: true })
  const before = await plan.boundingBox()
  openStream()
  await expectLive(page)
  expect(await plan.boundingBox()).toEqual(before)
  await plan.click()
  await expect(page.getByRole('combobox', { name: 'Batch' })).toHaveValue(batchId)
  await expect(planned(page)).toContainText('64 samples per step')
  await page.getByRole('link', { name: batchId }).click()
  await expect(page).toHaveURL(new RegExp(`/batches/${batchId}$`))
})

test('plans entered values and keeps them in the URL', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/planner`)
  await expect(planned(page)).toBeVisible()
  await page.getByLabel('From, s').fill('0.002')
  await page.getByLabel('To, s').fill('0.02')
  await expect(planned(page)).toContainText(
    'With 256 concurrent rewards, overlapping brings no gain.',
  )
  await expect(page).toHaveURL(/first=0\.002&second=0\.02/)
  await page.reload()
  await expect(planned(page)).toContainText('no gain')
  await page.getByRole('button', { name: 'Async reward agent' }).click()
  await expect(page).toHaveURL(`${service.url}/planner`)
  await expect(planned(page)).toContainText('34 % less')
})

test('a column header selects the drawn steps, also by keyboard', { tag: '@full' }, async ({
  page,
}) => {
  await page.goto(`${service.url}/planner`)
  const column = page.getByRole('button', { name: 'No limit' })
  await expect(column).toHaveAttribute('aria-pressed', 'false')
  await expectLive(page)
  await column.focus()
  await page.keyboard.press('Enter')
  await expect(column).toHaveAttribute('aria-pressed', 'true')
  await expect(planned(page)).toContainText('Without a limit, the step time is 203.0 s')
  await expect(
    page.getByRole('img', { name: 'Off-policy + pipeline. Step time 203.0 s' }),
  ).toBeVisible()
  await expect(page).toHaveURL(/show=nonex1/)
})

test('plans a run step by step, and shows why a plan is impossible', { tag: '@full' }, async ({
  page,
}) => {
  await page.goto(`${service.url}/planner?rollout=1&logprob=1&update=1`)
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await expect(page.getByText('Select a run')).toBeVisible()
  await choose(page.getByLabel('Run', { exact: true }), 'recorded')
  await expect(planned(page)).toContainText('2 steps, 64 samples per step')
  await page.goto(`${service.url}/planner?batch=b999`)
  await expect(page.getByText('Batch not found')).toBeVisible()
  await page.goto(`${service.url}/planner?prompts=65000&group=64`)
  await expect(page.getByText('at most 131,072 are replayed')).toBeVisible()
})
