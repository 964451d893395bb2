import { expect, type Page } from '@playwright/test'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { choose } from './fixtures/choose.ts'
import {
  expectAccessible,
  expectFits,
  expectLive,
  pageHeader,
  watchErrors,
} from './fixtures/look.ts'
import { looksOf } from './fixtures/looks.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rm: SimulatedServers
let batch = ''
let rescored = ''

const rollout = (i: number, right: boolean) => ({
  uid: `q${i >> 2}`,
  dataSource: i < 32 ? 'openai/gsm8k' : 'grade/school',
  prompt: 'What is 6 * 12?',
  response: right ? `That makes ${i}\n#### 72` : `It is\n#### ${i + 100}`,
  groundTruth: '72',
})

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  rm = await startSimulatedServers()
  const { api } = service
  await api.servers.register.mutate({ name: 'rm-1', url: rm.url })
  const submit = async (run: string, step: number, rights: number) => {
    const { batchId } = await api.batches.submit.mutate({
      ...{ run, step, reward: { function: { name: 'gsm8k' } } },
      samples: Array.from({ length: 64 }, (_, i) => rollout(i, (i * 7 + step) % 16 < rights)),
    })
    await api.batches.wait.query({ batchId, waitMs: 30_000 })
    return batchId
  }
  for (const step of [1, 2, 3, 5]) {
    const id = await submit('compared', step, 4 + step)
    if (step === 5) batch = id
    await submit('overlaid', step, 9)
  }
  const adam = { name: 'adamw', betas: [0.9, 0.95] }
  await api.runs.update.mutate({ run: 'compared', config: { actor: { lr: 1e-6, ...adam } } })
  await api.runs.update.mutate({ run: 'overlaid', config: { actor: { lr: 5e-6, ...adam } } })
  const { batchId } = await api.batches.rescore.mutate({
    batchId: batch,
    reward: { model: 'simulated-rm' } as never,
  })
  await api.batches.wait.query({ batchId, waitMs: 30_000 })
  rescored = batchId
})
test.afterAll(async () => {
  await removeServers(service)
  await rm?.stop()
})

const disagreements = (page: Page) => page.getByRole('region', { name: 'Largest disagreements' })

test('rescores a batch with a second reward, compares the two, and links to the largest disagreement', async ({
  page,
  context,
}) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/compare?a=${batch}`)
  await page.getByRole('button', { name: `Rescore ${batch}` }).click()
  const sheet = page.getByRole('dialog', { name: `Rescore ${batch}` })
  await choose(sheet.getByLabel('Reward', { exact: true }), 'simulated-rm')
  await sheet.getByRole('button', { name: 'Rescore' }).click()

  await expect(page).toHaveURL(new RegExp(`a=${batch}&b=b\\d+$`))
  await expect(page.locator('[data-compared="final"]')).toBeVisible()
  await expectLive(page)
  const second = new URL(page.url()).searchParams.get('b') as string
  const pair = await service.api.compare.pair.query({ first: batch, second })
  expect(pair.n).toBe(64)
  const figures = page.getByLabel('Comparison figures')
  await expect(figures.locator('dd').first()).toContainText('64')
  await expect(figures).toContainText((pair.groups.tau as number).toFixed(3).replace('-', '−'))
  await page.getByRole('button', { name: 'Show Cumulative score distribution as a table' }).click()

  const worst = await service.api.compare.samples.query({ first: batch, second, limit: 2 })
  const [first, next] = worst.items.map(({ firstId }) => firstId)
  // The list of disagreements is complete only some time after the figures, so the test waits for the first row.
  const rows = disagreements(page).locator('[data-compared-row]')
  await expect(rows.first()).toHaveAttribute('data-compared-row', first as string)
  await page.keyboard.press('j')
  await expect(page).toHaveURL(new RegExp(`open=${first}`))
  await expect(page.locator(`[data-compared-sample="${first}"]`)).toBeVisible()
  await page.keyboard.press('j')
  const panel = page.getByRole('complementary', { name: `Samples ${next}` })
  await expect(panel.locator(`[data-compared-sample="${next}"]`)).toBeVisible()
  const results = await service.api.samples.get.query({ id: next as string })
  await expect(panel).toContainText(results.response.split('\n')[0] as string)

  const shared = await context.newPage()
  await shared.goto(page.url())
  await expect(shared.locator(`[data-compared-sample="${next}"]`)).toBeVisible()
  await expectAccessible(shared)
  await shared.close()
  await page.keyboard.press('Escape')
  await expect(panel).toHaveCount(0)
  errors.expectNone()
})

test('keeps filters, sorting and the swap of a comparison in the URL', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/compare?a=${batch}&b=${rescored}`)
  await page.getByRole('button', { name: 'Sign flipped' }).click()
  const signFlipped = await service.api.compare.samples.query({
    ...{ first: batch, second: rescored, signFlipped: true },
  })
  const list = page.locator('#disagreements')
  await expect(list).toContainText(`n = ${signFlipped.total}`)
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await page.getByRole('button', { name: 'Score', exact: true }).click()
  await page
    .getByRole('button', { name: /^Show group/ })
    .first()
    .click()
  await expect(page).toHaveURL(/by=score&uid=q\d+$/)
  await expect(disagreements(page).locator('tbody tr')).toHaveCount(4)
  await page.getByRole('button', { name: 'Swap first and second' }).click()
  await expect(page).toHaveURL(new RegExp(`a=${rescored}&b=${batch}`))
  const { joint } = await service.api.compare.pair.query({ first: rescored, second: batch })
  const [x, y, n] = joint?.cells[0] ?? [0, 0, 0]
  await page.goto(`${service.url}/compare?a=${rescored}&b=${batch}&cell=${x}-${y}&by=score`)
  await expect(list).toContainText(`n = ${n}`)
  await page.getByRole('button', { name: 'Remove score filter' }).click()
  await expect(list).toContainText('n = 64')
  await page.reload()
  await expect(page.getByRole('region', { name: 'First batch' })).toContainText('simulated-rm')
  await page.goto(`${service.url}/runs/compared`)
  await expect(page.getByRole('region', { name: 'Steps' }).locator('tbody tr')).toHaveCount(4)
  await page.getByRole('link', { name: `Compare ${batch} and ${rescored}` }).click()
  await expect(page).toHaveURL(new RegExp(`a=${batch}&b=${rescored}$`))
  errors.expectNone()
})

test('shows missing batches and service errors', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/compare?a=b999999`)
  await expect(page.getByText('There is no batch b999999.')).toBeVisible()
  await page.goto(`${service.url}/compare?a=${batch}&b=b999999`)
  await expect(page.getByText('There is no batch b999999.')).toBeVisible()
  await page.goto(`${service.url}/compare?run=nobody`)
  await expect(page.getByText('There is no run “nobody”.')).toBeVisible()
  await page.route('**/api/trpc/**compare.pair**', (route) => route.abort())
  await page.goto(`${service.url}/compare?a=${batch}&b=${rescored}`)
  await expect(page.getByText('The service is unreachable')).toBeVisible()
  await page.unroute('**/api/trpc/**compare.pair**')
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(page.locator('[data-compared="final"]')).toBeVisible()
})

test('selects, overlays and hides runs, and lists their differences by step', async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs`)
  await page.getByRole('checkbox', { name: 'Compare compared' }).check()
  await page.getByRole('checkbox', { name: 'Compare overlaid' }).check()
  await pageHeader(page).getByRole('link', { name: 'Compare 2' }).click()
  await expect(page).toHaveURL(/run=compared&run=overlaid$/)
  await expect(page.getByText('n = 512 in 2 runs')).toBeVisible()
  await page.getByRole('button', { name: 'p25–p75' }).click()
  await page.getByRole('button', { name: 'Hide overlaid' }).click()
  await expect(page).toHaveURL(/hide=overlaid&band=middle$/)
  await page.reload()
  await page.getByRole('button', { name: 'Show overlaid' }).click()
  await page.getByRole('button', { name: 'Show overlaid − compared as a table' }).click()
  const compared = await service.api.compare.runs.query({ runs: ['compared', 'overlaid'] })
  const rows = page.getByRole('region', { name: 'overlaid − compared, table' }).locator('tbody tr')
  await expect(rows).toHaveCount(compared.deltas[0]?.steps.length ?? -1)
  await expect(page.getByText('1 of 3 values differ')).toBeVisible()
  const values = page.getByRole('region', { name: 'Configuration' }).locator('tbody tr')
  await expect(values).toHaveText([/actor\.lr\s*1e-6\s*5e-6/])
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await expect(page).toHaveURL(/config=all/)
  await expect(values).toHaveCount(3)
  await expectAccessible(page)
  await page.getByRole('region', { name: 'Shared steps' }).getByRole('link').first().click()
  await expect(page.getByText('Same prompts')).toBeVisible()
  errors.expectNone()
})

const VIEWS = [
  () => `/compare?a=${batch}&b=${rescored}`,
  () => '/compare?run=compared&run=overlaid&band=most',
  () => '/compare',
  () => `/compare?a=${batch}`,
]
for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    const looks = looksOf(VIEWS, colorScheme, width)
    if (looks.length === 0) continue
    test(`fits and is accessible, ${colorScheme}, ${width} px`, { tag: '@full' }, async ({
      page,
    }) => {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 800 })
      for (const path of looks) {
        await page.goto(service.url + path())
        await expect(page.locator('table, svg.recharts-surface').first()).toBeVisible()
        await expectFits(page)
        await expectAccessible(page)
      }
    })
  }
}
