import { expect } from '@playwright/test'
import { expectAccessible, expectFits, watchErrors } from './fixtures/look.ts'
import { checkEach, expectStateAccessible } from './fixtures/looks.ts'
import { type TestService, test } from './fixtures/service.ts'

let service: TestService
let lastBatch: string

const RUN = 'prompts'
const PAGE = `/runs/${RUN}/prompts`
/** Number of correct samples out of 8, by prompt and step. The last group of `mixed` has 24 samples. */
const PASSES = {
  forgotten: [8, 8, 8, 8, 0, 0],
  solved: [2, 4, 6, 8, 8, 8],
  mixed: [4, 4, 4, 4, 4, 12],
}

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const { api } = service
  for (const step of [1, 2, 3, 4, 5, 6]) {
    const groups = Object.entries(PASSES).flatMap(([name, passes]) =>
      Array.from({ length: name === 'mixed' && step === 6 ? 24 : 8 }, (_, i) => ({
        uid: `${step}/${name}`,
        ...(name === 'forgotten' && { promptId: 'question-7' }),
        dataSource: name === 'mixed' ? 'grade/school' : 'openai/gsm8k',
        prompt: `What is 6 * 12? (${name})`,
        response: i < (passes[step - 1] as number) ? `It is\n#### 72` : `Take ${i}\n#### 7${i}5`,
        groundTruth: '72',
      })),
    )
    const { batchId } = await api.batches.submit.mutate({
      ...{ run: RUN, step, reward: { function: { name: 'gsm8k' } } },
      samples: [...groups, { ...groups[0]!, uid: `${step}/none`, prompt: '', promptId: null }].map(
        ({ promptId, ...sample }) => (promptId ? { ...sample, promptId } : sample),
      ),
    })
    await api.batches.wait.query({ batchId, waitMs: 30_000 })
    lastBatch = batchId
  }
  // Unlike the counts that the page shows, this list is not cached, so the test polls it.
  await expect
    .poll(
      async () => (await api.prompts.list.query({ run: RUN })).items.map(({ visits }) => visits),
      { timeout: 20_000 },
    )
    .toEqual([6, 6, 6])
})

test('a run leads to its prompts, and a prompt to its responses', async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs/${RUN}`)
  await page.getByRole('link', { name: 'Prompts', exact: true }).click()
  await page.waitForURL(`**${PAGE}`)
  const rows = page.locator('[data-prompt]')
  await expect(rows).toHaveCount(3)
  await expect(page.getByText('6 groups without a prompt are not listed.')).toBeVisible()
  await expectFits(page)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Regressed 1' }).click()
  await expect(page).toHaveURL(/class=regressed/)
  await expect(rows).toHaveCount(1)
  await expect(rows).toContainText('−100 points')
  await page.getByRole('button', { name: 'Regressed 1' }).click()
  await page.getByLabel('Search prompts').fill('MIXED')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/search=MIXED/)
  await expect(rows).toHaveCount(1)
  await rows.getByRole('link').click()
  await page.waitForURL(`**${PAGE}/*`)
  const responses = page.locator('[data-response]')
  await expect(responses).toHaveCount(8)
  await expect(responses.first()).toContainText('Best')
  await expect(responses.nth(1)).toContainText('Worst')
  await expect(responses.nth(1)).toContainText('different')
  await expect(page.getByRole('button', { name: 'Show all 24 responses' })).toBeVisible()
  await expect(page.getByRole('link', { name: 'Compare best and worst' })).toBeVisible()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Compare step 2 responses', exact: true }).click()
  await expect(page).toHaveURL(/beside=b\d+/)
  await expect(page.getByRole('heading', { name: 'Responses at step 2' })).toBeVisible()
  await expect(page.locator('[data-response]')).toHaveCount(16)
  await page.getByRole('button', { name: 'Close step 2 responses' }).click()
  await expect(page).not.toHaveURL(/beside/)
  errors.expectNone()
})

test('charts show pass rates by step, and a click on the heat map opens a prompt', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}${PAGE}?view=steps`)
  await page.getByRole('button', { name: 'Show Groups by pass rate as a table' }).click()
  const table = page.getByRole('region', { name: 'Groups by pass rate, table' })
  await expect(table.locator('tbody tr').first().locator('td')).toHaveText([
    ...['6', '50 %', '0 %', '25 %', '25 %', '4'],
  ])
  await expect(page.getByText('because all scores are 0 or 1')).toBeVisible()
  await page.getByRole('button', { name: 'Heat map' }).click()
  await expect(page).toHaveURL(/view=heat/)
  const heat = page.getByRole('img', { name: /^Pass rates of 3 prompts over 6 steps/ })
  await expect(heat).toBeVisible()
  await expectStateAccessible(page)
  // The hardest prompt is at the bottom.
  const box = (await heat.locator('canvas').boundingBox())!
  await heat.locator('canvas').click({ position: { x: box.width / 2, y: box.height - 10 } })
  await page.waitForURL(`**${PAGE}/*`)
  await expect(page.getByText('12 of 24 passed')).toBeVisible()
  errors.expectNone()
})

test('the prompts of a change and of a sample lead to their pages', async ({ page }) => {
  await page.goto(`${service.url}/runs/${RUN}?before=3-4&after=5-6&by=prompt`)
  const changed = page.getByRole('region', { name: 'Prompts that changed most' })
  await changed.getByRole('link', { name: '5/forgotten' }).click()
  await page.waitForURL(`**${PAGE}/*`)
  await expect(page.getByRole('heading', { name: 'question-7' })).toBeVisible()
  await page.goto(`${service.url}/samples?run=${RUN}&step=6&uid=6/forgotten&sample=${lastBatch}-0`)
  await page.getByRole('link', { name: 'View prompt' }).click()
  await page.waitForURL(`**${PAGE}/*`)
  await expect(page.getByRole('heading', { name: 'question-7' })).toBeVisible()
})

test('an unknown prompt, an unknown run and a split without prompts show a message', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}${PAGE}/${'0'.repeat(32)}`)
  await expect(page.getByText('Prompt not found')).toBeVisible()
  await page.goto(`${service.url}/runs/nothing/prompts`)
  await expect(page.getByText('Run “nothing” not found')).toBeVisible()
  await page.goto(`${service.url}${PAGE}?split=val`)
  await expect(page.getByText('No validation prompts yet')).toBeVisible()
})

checkEach(
  [
    {
      name: 'prompts over steps',
      path: `${PAGE}?view=steps`,
      make: async (page) => {
        await expect(page.locator('.recharts-surface').first()).toBeVisible()
      },
    },
    {
      name: 'prompts',
      path: PAGE,
      make: async (page) => {
        await expect(page.locator('[data-prompt]')).toHaveCount(3)
      },
    },
    {
      name: 'prompt',
      path: PAGE,
      make: async (page) => {
        await page.locator('[data-prompt]').first().getByRole('link').click()
        await expect(page.locator('[data-response]').first()).toBeVisible()
      },
    },
  ],
  { url: () => service.url },
)
