import { expect } from '@playwright/test'
import { startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { rollouts } from '../testkit/service/rollouts.ts'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectFits, watchErrors } from './fixtures/look.ts'
import { type TestService, test } from './fixtures/service.ts'

/** Runs whose changes have planted causes. The run page must show each cause within two clicks. */

let service: TestService

const GROUPS = 32
const SIZE = 8

function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}

interface Rollout {
  dataSource?: string
  prompt?: string
  response: string
  score?: number
  verdict?: string
  rewardExtraInfo?: Record<string, number>
}

/** Submits a run, one batch per step. `rolloutsOf` returns the samples of a step, eight per group. */
async function submitRun(
  run: string,
  steps: number,
  rolloutsOf: (step: number) => Rollout[],
  reward: object = { function: { name: 'gsm8k' } },
): Promise<void> {
  const { api } = service
  for (let step = 1; step <= steps; step++) {
    const { batchId } = await api.batches.submit.mutate({
      ...{ run, step, reward },
      samples: rolloutsOf(step).map(({ dataSource, prompt, ...rest }, i) => ({
        uid: `q${Math.floor(i / SIZE)}`,
        dataSource: dataSource ?? 'openai/gsm8k',
        prompt: prompt ?? `Question ${Math.floor(i / SIZE)}: what is 6 * 12?`,
        groundTruth: '72',
        ...rest,
      })),
    })
    await api.batches.wait.query({ batchId, waitMs: 30_000 })
  }
}

/** A step's rollouts. `unmarked`: the share of responses without the answer marker that the rule requires. */
function answers(random: () => number, rate: number, unmarked: number): Rollout[] {
  return Array.from({ length: GROUPS * SIZE }, (_, i) => {
    const difficulty = 0.25 * Math.sin(Math.floor(i / SIZE))
    const number = random() < rate + difficulty ? 72 : 71
    return { response: random() < unmarked ? `So it is ${number}.` : `So it is\n#### ${number}` }
  })
}

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const random = numbers(1)
  await submitRun('format-regression', 16, (step) =>
    answers(random, 0.5, step === 9 || step === 10 ? 0.65 : 0.03),
  )
  await submitRun(
    'component-drift',
    16,
    (step) =>
      Array.from({ length: GROUPS * SIZE }, () => {
        const answer = random() < 0.5 ? 1 : 0
        const style = 0.4 * random() + (step >= 9 ? 0.5 : 0)
        return {
          response: 'It is\n#### 72',
          ...{ score: answer + 0.3 * style, verdict: answer === 1 ? 'equal' : 'different' },
          rewardExtraInfo: { answer, style },
        }
      }),
    {
      combine: [
        { name: 'answer', weight: 1, reward: { function: { name: 'gsm8k' } } },
        { name: 'style', weight: 0.3, reward: { function: { name: 'gsm8k' } } },
      ],
    },
  )
  await submitRun('source-mix', 16, (step) =>
    Array.from({ length: GROUPS }, () =>
      random() < (step >= 9 ? 0.9 : 0.5) ? 'hard' : 'easy',
    ).flatMap((dataSource) =>
      Array.from({ length: SIZE }, () => {
        const score = random() < (dataSource === 'hard' ? 0.2 : 0.8) ? 1 : 0
        return {
          dataSource,
          response: '#### 72',
          score,
          verdict: score === 1 ? 'equal' : 'different',
        }
      }),
    ),
  )
  await submitRun('healthy', 20, (step) => answers(random, 0.4 + 0.01 * step, 0.03))
})

const changes = (page: import('@playwright/test').Page) => page.locator('#changes')

test('names responses without the answer marker as the cause, with a link to them', async ({
  page,
}) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/runs/format-regression`)
  await expect(changes(page)).toContainText(/no answer went from \S+\s% to 6\S+\s% of the samples/)
  await expect(changes(page).getByRole('button', { name: 'Outcome', pressed: true })).toBeVisible()
  await expectAccessible(page)
  await expectFits(page)
  await changes(page)
    .locator('tr[data-part="no answer"]')
    .getByRole('link', { name: 'After' })
    .click()
  await page.waitForURL(/\/samples\?.*verdict=no\+answer/)
  await expect(page.getByRole('row').nth(1)).toContainText('no answer')
  errors.expectNone()
})

test('lists the sudden changes, each of which is compared on a click', async ({ page }) => {
  await page.goto(`${service.url}/runs/format-regression`)
  const fall = changes(page).getByRole('button', { name: /^Step 9 −0\.\d+$/ })
  const recovery = changes(page).getByRole('button', { name: /^Step 11 \+0\.\d+$/ })
  await recovery.click()
  await expect(page).toHaveURL(/before=9-10&after=11-12/)
  await expect(recovery).toHaveAttribute('aria-pressed', 'true')
  await fall.click()
  await expect(page).toHaveURL(/before=7-8&after=9-10/)
  await expect(changes(page)).toContainText(/no answer went from \S+\s% to 6\S+\s% of the samples/)
})

test('names a drifting component as the cause, with its contribution', async ({ page }) => {
  await page.goto(`${service.url}/runs/component-drift?before=1-8&after=9-16`)
  await expect(changes(page)).toContainText(
    /The mean of style went from 0\.\d+ to 0\.\d+, which explains \+0\.1[45]/,
  )
  await expect(
    changes(page).getByRole('button', { name: 'Component', pressed: true }),
  ).toBeVisible()
})

test('names a changed mix of data sources as the cause, and no cause within a source', async ({
  page,
}) => {
  await page.goto(`${service.url}/runs/source-mix?before=5-8&after=9-12`)
  await expect(changes(page)).toContainText(/The mix of data sources explains −0\.\d+/)
  for (const source of ['easy', 'hard']) {
    await choose(changes(page).getByRole('combobox', { name: 'Data source' }), source)
    await expect(changes(page)).toContainText('Nothing stands out')
  }
})

test('names no cause in a healthy run', async ({ page }) => {
  await page.goto(`${service.url}/runs/healthy`)
  await expect(changes(page)).toContainText('Nothing stands out')
})

test('a click on a step compares it with the previous step', async ({ page }) => {
  await page.goto(`${service.url}/runs/format-regression`)
  const chart = page.locator('.recharts-wrapper').first()
  const box = await chart.boundingBox()
  if (box === null) throw new Error('the chart is not drawn')
  const [x, y] = [box.x + box.width * 0.56, box.y + box.height / 2]
  await page.mouse.move(x, y)
  await expect(page.getByText(/CI of mean0\.\d+ to/)).toBeVisible()
  await page.mouse.click(x, y)
  await expect(page).toHaveURL(/before=\d+&after=\d+/)
  await expect(changes(page).getByRole('button', { name: 'Show largest change' })).toBeVisible()
})

test('a drag zooms all charts, and the zoomed steps are compared with those before', async ({
  page,
}) => {
  await page.goto(`${service.url}/runs/format-regression`)
  const box = await page.locator('.recharts-wrapper').first().boundingBox()
  if (box === null) throw new Error('the chart is not drawn')
  const y = box.y + box.height / 2
  await page.mouse.move(box.x + box.width * 0.53, y)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.58, y, { steps: 4 })
  await page.mouse.move(box.x + box.width * 0.61, y, { steps: 4 })
  await page.mouse.up()
  await expect(page).toHaveURL(/zoom=\d+-\d+/)
  await expect(page.getByText(/n = \d+ in [2-4] steps/).first()).toBeVisible()
  await changes(page).getByRole('button', { name: 'Compare zoomed steps' }).click()
  await expect(page).toHaveURL(/before=\d+(-\d+)?&after=\d+-\d+/)
  await page.getByRole('button', { name: 'Show all steps' }).click()
  await expect(page.getByText('n = 4,096 in 16 steps').first()).toBeVisible()
})

test('cells and steps of charts lead to their samples', async ({ page }) => {
  await page.goto(`${service.url}/runs/format-regression`)
  const heat = page.getByRole('img', { name: /^Reward distribution/ }).locator('canvas')
  const box = await heat.boundingBox()
  if (box === null) throw new Error('the heat map is not drawn')
  // The lower row is score 0. The clicked step is the ninth of sixteen, the first one with many unmarked answers.
  const [x, y] = [box.width * (8.5 / 16), box.height * 0.75]
  await heat.hover({ position: { x, y } })
  await heat.click({ position: { x, y } })
  await page.waitForURL(/\/samples\?.*step=9.*scoreMin=0&scoreMax=0/)
})

test('the Workers page shows scored samples over time, in the selected range', async ({ page }) => {
  const errors = watchErrors(page)
  const { throughput } = await service.api.fleet.history.query({})
  const scored = throughput.series.flatMap(({ values }) => values).reduce((a, b) => a + b, 0)
  expect(scored).toBeGreaterThan(0)
  await page.goto(`${service.url}/workers`)
  await page.getByRole('button', { name: 'Show Worker throughput as a table' }).click()
  const table = page.getByRole('region', { name: 'Worker throughput, table' })
  await expect(table.getByRole('row')).toHaveCount(91)
  await page.getByRole('button', { name: '1 h' }).click()
  await expect(page).toHaveURL(/last=3600/)
  await expect(page.getByText('Intervals of 20 s')).toBeVisible()
  await expectAccessible(page)
  await expectFits(page)
  errors.expectNone()
})

test('lists exactly the 50 forgotten prompts of 1,000 as regressed', async ({ page }) => {
  test.setTimeout(300_000)
  const { api } = service
  const random = numbers(7)
  const STEPS = 20
  const isForgotten = (prompt: number) => prompt % 20 === 7
  const rates = Array.from({ length: 1_000 }, (_, prompt) =>
    isForgotten(prompt) ? 0.9 : 0.1 + 0.8 * random(),
  )
  for (let step = 1; step <= STEPS; step++) {
    await api.batches.submit.mutate({
      ...{ run: 'forgets', step, reward: { function: { name: 'gsm8k' } } },
      samples: rates.flatMap((rate, prompt) =>
        Array.from({ length: SIZE }, () => {
          const score = random() < (isForgotten(prompt) && step > 12 ? 0.05 : rate) ? 1 : 0
          return {
            ...{ uid: `q${prompt}`, promptId: `q${prompt}`, dataSource: 'openai/gsm8k', score },
            ...{ prompt: `Question ${prompt}`, response: `#### ${score}`, groundTruth: '1' },
          }
        }),
      ),
    })
  }
  await expect
    .poll(
      async () => (await api.prompts.list.query({ run: 'forgets', limit: 1 })).items[0]?.visits,
      {
        timeout: 120_000,
      },
    )
    .toBe(STEPS)
  await page.goto(`${service.url}/runs/forgets`)
  await page.getByRole('link', { name: 'Prompts', exact: true }).click()
  await page.getByRole('button', { name: 'Regressed 50' }).click()
  await expect(page).toHaveURL(/class=regressed/)
  const { items } = await api.prompts.list.query({ run: 'forgets', class: 'regressed', limit: 200 })
  const planted = rates.flatMap((_, prompt) => (isForgotten(prompt) ? [`q${prompt}`] : []))
  expect(items.map(({ promptId }) => promptId).sort()).toEqual(planted.sort())
})

test('names a server five times slower than the others, but not a failing one', async ({
  page,
}) => {
  test.setTimeout(120_000)
  const { api } = service
  const latency = ['--latency', 'uniform:300,500']
  const fleet = {
    'usual-1': latency,
    'usual-2': latency,
    slow: ['--latency', 'uniform:1500,2500'],
    failing: [...latency, '--faults', '{"limited429":0.1,"error500":0.05}'],
  }
  const sims = await Promise.all(
    Object.values(fleet).map((args) =>
      startSimulatedServers(['--dialect', 'chat', '--model', 'judge', ...args]),
    ),
  )
  try {
    for (const [at, name] of Object.keys(fleet).entries()) {
      await api.servers.register.mutate({
        ...{ name, url: sims[at]?.url as string, engine: 'openai', kind: 'generative' },
        maxInFlight: name === 'slow' ? 4 : 16,
      })
    }
    await api.pools.update.mutate({ model: 'judge', policy: 'round_robin' })
    const scored = async (step: number) => {
      const { batchId } = await api.batches.submit.mutate({
        ...{ run: 'held-up', step, samples: rollouts(40) },
        reward: { model: 'judge', judge: 'rating-1-10', maxAttempts: 8 },
      })
      await api.batches.wait.query({ batchId, waitMs: 60_000 })
      return batchId
    }
    const first = await scored(1)
    await page.goto(`${service.url}/runs/held-up`)
    await page.getByRole('link', { name: first, exact: true }).click()
    await expect(page.locator('[data-bottleneck]')).toContainText(
      /^slow held up this batch: its median request time of \S+\s\S+ is [3-7]\.\d × that of the other servers/,
    )
    await api.servers.remove.mutate({ name: 'slow' })
    const second = await scored(2)
    await page.goto(`${service.url}/batches/${second}`)
    await expect(page.locator('[data-bottleneck]')).toHaveText(
      'None of the 3 servers alone held up this batch.',
    )
  } finally {
    await Promise.all(sims.map((sim) => sim.stop()))
  }
})

test('a drag on a fleet chart zooms all fleet charts', async ({ page }) => {
  const errors = watchErrors(page)
  await page.goto(`${service.url}/workers?last=3600`)
  await expect(page.getByText('Intervals of 20 s')).toBeVisible()
  const plot = page
    .locator('section', { has: page.getByRole('heading', { name: 'Worker throughput' }) })
    .last()
    .locator('.recharts-surface')
    .first()
  const box = await plot.boundingBox()
  if (box === null) throw new Error('the chart is not drawn')
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, { steps: 4 })
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, { steps: 4 })
  await page.mouse.up()
  await expect(page).toHaveURL(/last=3600&from=\d+&to=\d+/)
  // The drag covers 12 minutes of the hour. A range of that length has intervals of 10 s.
  await expect(page.getByText(/–.*intervals of 10 s/)).toBeVisible()
  await page.getByRole('button', { name: 'Show Load as a table' }).click()
  const rows = page.getByRole('region', { name: 'Load, table' }).getByRole('row')
  await expect.poll(() => rows.count()).toBeLessThan(120)
  await page.goBack()
  await expect(page.getByText('Intervals of 20 s')).toBeVisible()
  await page.goForward()
  await page.getByRole('button', { name: 'Reset range' }).click()
  await expect(page).toHaveURL(/last=3600$/)
  await expect(page.getByText('Intervals of 20 s')).toBeVisible()
  errors.expectNone()
})
