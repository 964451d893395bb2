import { expect, type Locator } from '@playwright/test'
import { createLogger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { section } from './exactness/read-page.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible } from './fixtures/looks.ts'
import { type TestService, test } from './fixtures/service.ts'

let service: TestService
const means = new Map<number, number>()

const rollout = (i: number, right: boolean, dataSource: string) => ({
  uid: `q${i >> 2}`,
  dataSource,
  prompt: 'What is 6 * 12?',
  response: right ? 'So it is\n#### 72' : `It is\n#### 7${i}`,
  groundTruth: '72',
})

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const { api } = service
  const submit = async (
    run: string,
    step: number,
    rights: number,
    options: { split?: 'val'; method?: string; source?: string } = {},
  ) => {
    const { batchId } = await api.batches.submit.mutate({
      run,
      step,
      ...(options.split ? { split: options.split } : {}),
      reward: { function: { name: 'gsm8k', kwargs: { method: options.method ?? 'strict' } } },
      samples: Array.from({ length: 32 }, (_, i) =>
        rollout(i, i % 16 < rights, i < 16 ? 'openai/gsm8k' : (options.source ?? 'openai/gsm8k')),
      ),
    })
    await api.batches.wait.query({ batchId, waitMs: 30_000 })
    return batchId
  }
  for (const step of [1, 2, 3, 4, 6]) {
    const method = step < 4 ? 'strict' : 'flexible'
    const batchId = await submit('learner', step, step * 2, { method, source: 'grade/school' })
    const { score } = await api.batches.results.query({ batchId })
    means.set(step, (score as number[]).reduce((a, b) => a + b, 0) / score.length)
  }
  await submit('learner', 4, 5, { split: 'val' })
  await submit('other', 2, 12)
  await submit('other', 5, 14)
})

test('the runs are sorted, filtered, grouped and configured', async ({ page }) => {
  const errors = watchErrors(page)
  const { runs } = service.api
  await runs.update.mutate({ run: 'learner', config: { optimizer: { lr: 1e-6 } }, tags: ['grpo'] })
  await runs.update.mutate({ run: 'other', config: { optimizer: { lr: 5e-6 } } })
  await page.goto(`${service.url}/runs?col=config.optimizer.lr`)
  const row = (run: string) => page.locator(`tr[data-run="${run}"]`)
  const last = means.get(6) as number
  await expect(row('learner')).toContainText(Number.isInteger(last) ? `${last}` : last.toFixed(3))
  await expect(row('learner')).toContainText('Idle')
  await expect(row('learner')).toContainText('1e-6')
  await expect(
    row('learner').getByRole('img', { name: 'Mean reward of learner, steps 1 to 6' }),
  ).toBeVisible()
  await expectFits(page)
  await expectAccessible(page)

  const field = page.getByLabel('Configuration filter')
  await field.fill('optimizer.lr')
  await field.press('Enter')
  await expect(page.getByRole('alert').filter({ hasText: 'For example' })).toBeVisible()
  await field.fill('optimizer.lr > 2e-6')
  await field.press('Enter')
  await expect(row('learner')).toHaveCount(0)
  await expect(row('other')).toBeVisible()
  await page.reload()
  await expect(page.getByRole('status').filter({ hasText: /^1 of \d+$/ })).toBeVisible()
  await page.getByRole('button', { name: 'Remove filter optimizer.lr > 2e-6' }).click()

  const status = page.getByRole('group', { name: 'Status' })
  await status.getByRole('button', { name: 'Stalled' }).click()
  await expect(row('learner')).toHaveCount(0)
  await status.getByRole('button', { name: 'All', exact: true }).click()
  await expect(row('learner')).toBeVisible()
  const named = page.getByLabel('Run name')
  await named.fill('other')
  await expect(row('learner')).toHaveCount(0)
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await expect(named).toHaveValue('')
  await expect(row('learner')).toBeVisible()

  const sorted = page.getByRole('columnheader', { name: 'optimizer.lr' })
  await sorted.getByRole('button').click()
  await expect(sorted).toHaveAttribute('aria-sort', 'descending')
  await expect(page.locator('tr[data-run]').first()).toHaveAttribute('data-run', 'other')
  await sorted.getByRole('button').click()
  await expect(page.locator('tr[data-run]').first()).toHaveAttribute('data-run', 'learner')
  await page.getByRole('button', { name: 'Group by tag' }).click()
  await expect(page.locator('tr[data-tag]')).toHaveText([/^grpo1 run$/, /^No tags\d+ runs?$/])
  await expect(page).toHaveURL(/sort=config\.optimizer\.lr&order=asc&by=tag&col=config/)

  await row('learner').getByRole('link', { name: 'learner' }).click()
  await page.getByRole('button', { name: 'Add tag' }).click()
  await page.getByRole('textbox', { name: 'New tag' }).fill('ablation')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Remove tag grpo' }).click()
  await expect(page.getByRole('list', { name: 'Tags' }).getByRole('listitem')).toHaveText([
    'ablation',
  ])
  await page.getByRole('button', { name: 'Configuration' }).click()
  await expect(page.getByRole('row', { name: 'optimizer.lr 1e-6' })).toBeVisible()
  await expectStateAccessible(page)
  errors.expectNone()
})

test('a run page shows the rewards of each step as in the results', async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs`)
  await page.getByRole('link', { name: 'learner' }).click()
  await page.waitForURL('**/runs/learner')
  const reward = page.locator('section', {
    has: page.getByRole('heading', { name: 'Reward', exact: true }),
  })
  // Roll-ups appear within about a second after the end of a batch, without a reload.
  await expect(reward).toContainText('n = 160 in 5 steps')
  await expect(reward.locator('svg.recharts-surface').first()).toBeVisible()
  await reward
    .locator('svg.recharts-surface')
    .first()
    .click({ position: { x: 5, y: 5 } })
  expect(
    await page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle),
  ).toBe('none')
  await reward.getByRole('button', { name: 'Show Reward as a table' }).click()
  const rows = reward.locator('tbody tr')
  await expect(rows).toHaveCount(5)
  for (const [at, step] of [6, 4, 3, 2, 1].entries()) {
    const cells = await rows.nth(at).locator('td').allTextContents()
    const mean = means.get(step) as number
    expect(cells[0]).toBe(String(step))
    expect(cells[1]).toBe(Number.isInteger(mean) ? String(mean) : mean.toFixed(3))
    expect(cells[8]).toBe('32')
  }
  await expectAccessible(page)
  errors.expectNone()
})

test('overlays another run, shows the distribution as a table, and keeps its state in the URL', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs/learner`)
  const overlay = page.getByRole('combobox', { name: 'Overlay run' })
  await expectLive(page)
  await overlay.focus()
  await overlay.press('ArrowDown')
  await expect(page.getByRole('option', { name: 'other' })).toBeVisible()
  await expectAccessible(page)
  await page.keyboard.type('nothing of this name')
  await expect(page.getByText('No matches')).toBeVisible()
  await page.getByRole('combobox', { name: 'Search overlay run' }).fill('OTH')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'All scores' }).click()
  await expect(page).toHaveURL(/over=other&range=1/)
  await page.reload()
  await expect(page.getByRole('button', { name: 'Remove other' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'All scores' })).toHaveAttribute(
    'aria-pressed',
    'true',
  )
  await page.getByRole('button', { name: 'Show Reward distribution as a table' }).click()
  const spread = page.getByRole('region', { name: 'Reward distribution, table' })
  await expect(spread.locator('tbody tr').first()).toContainText('6')
  // The reward changes at step 4, which adds a mark automatically.
  await expect(spread.locator('th')).toHaveText(['Step', '1', '0', 'Marks'])
  await expect(spread.locator('tr', { hasText: 'reward changed' })).toContainText('4')
  await page.getByRole('button', { name: 'Remove other' }).click()
  await expect(page).not.toHaveURL(/over=/)
  await page.getByRole('region', { name: 'Steps' }).getByRole('link').first().press('Enter')
  await page.waitForURL('**/batches/b*')
  errors.expectNone()
})

/** Adds a run with steps one minute apart and a pause of two days before step 1000. Only step 601 has mean 0. */
async function addLongRun(name: string): Promise<void> {
  const url = runningEmbeddedUrl(service.dataDir) as string
  const db = new Database(url, createLogger('warn', 'runs'), { max: 1, name: 'runs' })
  try {
    await db.adhoc(
      `with made as (insert into run (name) values ($1) returning id),
       b as (
         insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, groups, text_bucket,
           submitted_at, completed_at, rolled_up, monitored, in_run_roll_up, mean, std, min, max)
         select id, step, 'train', 'completed', true, '{}', 'test', 8, 8, 2, current_date, at,
           at + interval '40 milliseconds' * (1 + step % 100), true, true, true, mean, 0.5, 0, 1
         from made, generate_series(1, 1200) step,
           lateral (select now() - interval '4 days' + step * interval '1 minute' + step / 1000 * interval '2 days' as at,
             case step when 601 then 0 else 0.5 end as mean) x
         returning id, mean)
       insert into batch_roll_up (batch_id, data_source, samples, scored, failed, substituted, mean, std, min, max, quantiles,
         bin_values, bin_counts, queue_ms, score_ms, mean_error)
       select id, '', 8, 8, 0, 0, mean, 0.5, 0, 1, '{0,0,0.5,1,1}', '{0,1}', '{4,4}', '{}', '{}', 0.1 from b`,
      [name],
    )
  } finally {
    await db.close()
  }
}

test('a run of 1,200 steps is drawn in bins, and zooms to single steps, by step or by time', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  await addLongRun('of-1200-steps')
  await page.goto(`${service.url}/runs/of-1200-steps`)
  await expect(page.getByText('1,200 steps in 601 bins')).toBeVisible()
  const reward = section(page, 'Reward')
  await expect(reward).toContainText('n = 9,600 in 1,200 steps')
  await reward.getByRole('button', { name: 'Show Reward as a table' }).click()
  const bin = reward.locator('tr', { hasText: '600–601' })
  await expect(bin.locator('td').nth(1)).toHaveText('0.250')
  await expect(bin.locator('td').nth(2)).toHaveText('0')
  await expect(bin.locator('td').nth(3)).toHaveText('0.500')
  await expectAccessible(page)
  await reward.getByRole('button', { name: 'Show Reward as a chart' }).click()

  await reward.getByRole('button', { name: 'Time', exact: true }).click()
  await section(page, 'Reward wait').getByRole('button', { name: 'Log', exact: true }).click()
  await expect(page).toHaveURL(/x=time&log=1$/)
  const plot = reward.locator('.recharts-cartesian-grid')
  await plot.scrollIntoViewIfNeeded()
  const { x, y, width, height } = (await plot.boundingBox()) as NonNullable<
    Awaited<ReturnType<Locator['boundingBox']>>
  >
  await page.mouse.move(x + width * 0.05, y + height / 2, { steps: 4 })
  await expect(reward.getByText('step means')).toBeVisible()
  await page.mouse.down()
  await page.mouse.move(x + width * 0.1, y + height / 2, { steps: 8 })
  await expect(reward.locator('.recharts-reference-area')).toBeVisible()
  await page.mouse.up()
  await expect(page).toHaveURL(/zoom=\d+-\d+$/)
  const [, from = '', to = ''] = /zoom=(\d+)-(\d+)/.exec(page.url()) ?? []
  const steps = Number(to) - Number(from) + 1
  expect(steps).toBeLessThan(400)
  await expect(reward).toContainText(`in ${steps} steps`)
  await expect(reward).not.toContainText('bins')
  await page.reload()
  await expect(reward).toContainText(`in ${steps} steps`)
  await expect(section(page, 'Steps').locator('tbody tr').first()).toContainText(to)

  await page.goto(`${service.url}/compare?run=of-1200-steps&run=learner`)
  await expect(page.getByText('bins of 2 steps')).toBeVisible()
  await page.goto(`${service.url}/compare?run=of-1200-steps&run=learner&zoom=1-6`)
  await expect(page.getByText('bins of')).toHaveCount(0)
  await page.getByRole('button', { name: 'Show all steps' }).click()
  await expect(page).toHaveURL(/run=of-1200-steps&run=learner$/)
  errors.expectNone()
})

test('a run whose samples all failed explains its empty charts', { tag: '@full' }, async ({
  page,
}) => {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'all-failed', step: 1, reward: { function: { name: 'gsm8k' } } },
    // The rule fails without a ground truth.
    samples: Array.from({ length: 32 }, (_, i) => ({
      ...rollout(i, true, 'openai/gsm8k'),
      groundTruth: null,
    })),
  })
  await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
  await page.goto(`${service.url}/runs/all-failed`)
  await expect(page.getByText('all 32 samples in 1 ended step failed')).toBeVisible()
  await expect(page.getByText('nothing has ended yet')).toHaveCount(0)
})

test('separates validation; an unknown run shows an error', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/runs/learner`)
  await page.getByRole('button', { name: 'Validation' }).click()
  await expect(page).toHaveURL(/split=val/)
  await expect(page.getByText('n = 32 in 1 step;')).toBeVisible()
  await page.goto(`${service.url}/runs/other?split=val`)
  await expect(page.getByText('No validation steps yet')).toBeVisible()
  await page.goto(`${service.url}/runs/${encodeURIComponent('not/there')}`)
  await expect(page.getByText('Run “not/there” not found')).toBeVisible()
  await page.goto(`${service.url}/runs/${encodeURIComponent('100% ü')}`)
  await expect(page.getByText('Run “100% ü” not found')).toBeVisible()
  await expect(page).toHaveTitle('100% ü · rewardops')
})

for (const look of ['light', 'dark'] as const) {
  test(`fits a phone, ${look}`, { tag: '@full' }, async ({ page }) => {
    await page.emulateMedia({ colorScheme: look })
    await page.setViewportSize({ width: 390, height: 800 })
    await page.goto(`${service.url}/runs/learner`)
    await expect(page.getByRole('heading', { name: 'Reward wait' })).toBeVisible()
    await expectFits(page)
    await expectAccessible(page)
  })
}
