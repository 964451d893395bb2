import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, type Page } from '@playwright/test'
import { current, legacy } from '../server/rewards/config/testing/upstream-yaml.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectLive } from './fixtures/look.ts'
import { checkEach, type View } from './fixtures/looks.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let sims: SimulatedServers[] = []
let sampleId = ''

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const functions = join(service.dataDir, 'functions')
  mkdirSync(join(functions, 'style'), { recursive: true })
  writeFileSync(
    join(functions, 'style', 'length.ts'),
    'export function computeScore({ solutionStr }) {\n  return { score: solutionStr.length / 100, words: solutionStr.split(" ").length }\n}\n',
  )
  sims = await Promise.all([
    startSimulatedServers(['--model', 'scorer']),
    startSimulatedServers(['--dialect', 'chat', '--model', 'judge']),
  ])
  const { api } = service
  await api.servers.register.mutate({ name: 'scorer-0', url: sims[0]?.urls[0] as string })
  await api.servers.register.mutate({
    name: 'judge-0',
    url: sims[1]?.urls[0] as string,
    engine: 'openai',
    kind: 'generative',
  })
  const { batchId } = await api.batches.submit.mutate({
    run: 'stored',
    step: 1,
    samples: [
      {
        uid: 'q1',
        dataSource: 'openai/gsm8k',
        prompt: [{ role: 'user', content: 'What is 6 * 12?' }],
        response: 'It is 74.\n#### 74',
        groundTruth: '72',
        responseLength: 9,
      },
    ],
  })
  sampleId = `${batchId}-0`
  for (const step of [1, 2, 3, 5]) {
    const submitted = await api.batches.submit.mutate({
      run: 'composed',
      step,
      samples: Array.from({ length: 16 }, (_, i) => ({
        uid: `q${i >> 2}`,
        dataSource: 'openai/gsm8k',
        prompt: 'What is 6 * 12?',
        response: i % 4 < step - 1 ? 'So it is\n#### 72' : `It is 7${i}`,
        groundTruth: '72',
      })),
      reward: {
        combine: [
          { name: 'right' },
          { name: 'length', weight: 0.5, reward: { function: { path: 'style/length.ts' } } },
          { name: 'rm', weight: 0.1, reward: { model: 'scorer' } },
        ],
      },
    })
    await api.batches.wait.query({ batchId: submitted.batchId, waitMs: 60_000 })
  }
  await api.batches.wait.query({ batchId, waitMs: 30_000 })
})
test.afterAll(async () => {
  await removeServers(service)
  await Promise.all(sims.map((each) => each.stop()))
})

const tried = (page: Page, end: 'scored' | 'failed' = 'scored') =>
  page.locator(`[data-tried="${end}"]`)
const score = (page: Page) => page.getByRole('button', { name: 'Score sample' }).click()

const VIEWS: View[] = [
  {
    name: 'registered',
    path: '/rewards?open=rule:gsm8k',
    make: (page) => expect(page.getByText('strict | flexible').first()).toBeVisible(),
  },
  {
    name: 'a rule tried',
    path: '/rewards?view=try',
    async make(page) {
      await page.getByRole('button', { name: 'DAPO, overlong' }).click()
      await score(page)
      await expect(tried(page)).toContainText('2,048 tokens over 16,384')
    },
  },
  {
    name: 'a judge tried',
    path: `/rewards?view=try&reward=${encodeURIComponent('{"model":"judge","judge":"rating-1-10"}')}`,
    async make(page) {
      await score(page)
      await expect(tried(page)).toContainText('Reply, parsed by bracketed')
    },
  },
  {
    name: 'a missing ground truth',
    path: '/rewards?view=try',
    async make(page) {
      await page.getByLabel('Ground truth', { exact: true }).fill('')
      await score(page)
      await expect(tried(page, 'failed')).toContainText('groundTruth is missing')
    },
  },
  {
    name: 'components',
    path: '/rewards?view=components',
    async make(page) {
      await expect(page.getByText('× 0.5').first()).toBeVisible()
      await expect(page.locator('.recharts-surface').first()).toBeVisible()
    },
  },
  {
    name: 'imported',
    path: '/rewards?view=import',
    async make(page) {
      await page.getByRole('button', { name: 'YAML, old keys' }).click()
      await expect(page.locator('[data-imported]')).toContainText('No problems found.')
    },
  },
]

checkEach(VIEWS, { url: () => service.url })

test('registry entries expand to their options and open in the playground', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}/rewards`)
  await expectLive(page)
  for (const section of ['Rules', 'Managers', 'Judge templates', 'Reward models', 'Functions']) {
    await expect(page.getByRole('heading', { name: section, exact: true })).toBeVisible()
  }
  const entry = page.locator('[data-entry="math_verify"]')
  await entry.getByRole('button').first().click()
  await expect(entry).toContainText('deadline_ms')
  await expect(page).toHaveURL(/open=rule%3Amath_verify/)
  await entry.getByRole('link', { name: 'Try it' }).click()
  await expect(page.getByLabel('Scored by')).toHaveText('math_verify')
  await score(page)
  await expect(tried(page)).toContainText('reward.function.name selects rule math_verify')

  await page.goto(`${service.url}/rewards`)
  const file = page.locator('[data-entry="style/length.ts"]')
  await file.getByRole('button').first().click()
  await file.getByRole('link', { name: 'Try it' }).click()
  await score(page)
  await expect(tried(page)).toContainText('Function computeScore')
  await expect(tried(page)).toContainText('words')
})

test('a rule’s trace shows the selection, the answer, both normalized forms, and the verdict', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=try`)
  await page.getByRole('button', { name: 'MATH, boxed' }).click()
  await score(page)
  const trace = tried(page)
  await expect(trace).toContainText('selects rule math_reward')
  await expect(trace.locator('mark')).toHaveText('\\boxed{\\dfrac{1}{2}}')
  await expect(trace).toContainText('\\frac{1}{2}')
  await expect(trace.locator('[data-verdict="equal"]')).toBeVisible()
  await expect(trace).toContainText('Reward extra info')
})

test('shows a model’s request, a judge’s reply, and the components of a composite reward', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=try`)
  await choose(page.getByRole('combobox', { name: 'Scored by', exact: true }), 'scorer')
  await score(page)
  await expect(tried(page)).toContainText('/classify')
  await expect(tried(page)).toContainText('scorer-0')
  await expect(tried(page)).toContainText('Attempt 1')

  await choose(page.getByRole('combobox', { name: 'Scored by', exact: true }), 'judge (judge)')
  await choose(page.getByLabel('Judge template'), 'pair-against-reference')
  await score(page)
  await expect(page.locator('[data-tried]')).toContainText('response shown second')

  await page.getByRole('button', { name: 'Edit as JSON' }).click()
  await page
    .getByLabel('Reward as JSON')
    .fill(
      '{"combine": [{"name": "right"}, {"name": "rm", "weight": 0.5, "reward": {"model": "scorer"}}]}',
    )
  await score(page)
  const sum = tried(page).getByRole('table')
  await expect(sum.getByRole('row')).toHaveCount(3)
  await expect(sum).toContainText('0.5')
  await expectAccessible(page)
})

test('shows input errors at their fields, and refusals with the message of the service', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=try`)
  await page.getByLabel('Options').fill('{"method": ')
  await score(page)
  await expect(page.getByRole('alert').filter({ hasText: 'invalid JSON' })).toBeVisible()
  await page.getByLabel('Options').fill('{"methd": "strict"}')
  await score(page)
  await expect(page.getByRole('alert').filter({ hasText: 'did you mean "method"?' })).toBeVisible()
  await page.getByLabel('Options').fill('')
  await page.getByLabel('Data source').fill('openai/gsm8')
  await score(page)
  await expect(page.getByRole('alert').filter({ hasText: 'openai/gsm8k' })).toBeVisible()
})

test('loads a stored sample by ID and scores it with another reward', { tag: '@full' }, async ({
  page,
}) => {
  await page.goto(`${service.url}/rewards?view=try`)
  const id = page.getByLabel('Stored sample ID')
  await id.fill('nonsense')
  await page.getByRole('button', { name: 'Load', exact: true }).click()
  await expect(page.getByText('Enter a sample ID, such as b12-3.')).toBeVisible()
  await id.fill('b999999-0')
  await id.press('Enter')
  await expect(page.getByText('There is no sample b999999-0.')).toBeVisible()
  await id.fill(sampleId)
  await id.press('Enter')
  await expect(page.getByLabel('Response', { exact: true })).toHaveValue('It is 74.\n#### 74')
  await expect(page.getByLabel('Response tokens')).toHaveValue('9')
  await page.getByLabel('Options').fill('{"format_score": 0.25}')
  await score(page)
  await expect(tried(page)).toContainText('0.250')
  await expect(tried(page).locator('[data-verdict="different"]')).toBeVisible()
  await page.reload()
  await expect(page.getByLabel('Response', { exact: true })).toHaveValue('It is 74.\n#### 74')
})

test('shows the components of a composite reward over steps, with table views', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=components&run=composed`)
  for (const name of ['Reward', 'right', 'length', 'rm']) {
    await expect(page.getByRole('heading', { name, exact: true })).toBeVisible()
  }
  await page.getByRole('button', { name: 'Show right as a table' }).click()
  const table = page.getByRole('region', { name: 'right, table' })
  await expect(table.getByRole('row')).toHaveCount(5)
  await expect(table.getByRole('row').nth(1)).toContainText('5')
  await expect(table.getByRole('row').last()).toContainText('16')
  await page.goto(`${service.url}/rewards?view=components&run=stored`)
  await expect(page.getByText('No components', { exact: true })).toBeVisible()
})

test('works by keyboard alone', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=try`)
  await expectLive(page)
  await page.getByLabel('Response', { exact: true }).focus()
  await page.keyboard.press('Control+Enter')
  await expect(tried(page)).toBeVisible()
  await page.getByRole('button', { name: 'Registered', exact: true }).focus()
  await page.keyboard.press('Enter')
  const entry = page.locator('[data-entry="gsm8k"]').getByRole('button').first()
  await entry.focus()
  await page.keyboard.press('Enter')
  await expect(entry).toHaveAttribute('aria-expanded', 'true')
  await page.keyboard.press('Space')
  await expect(entry).toHaveAttribute('aria-expanded', 'false')
  await page.goBack()
  await expect(page.getByRole('button', { name: 'Score sample' })).toBeVisible()
})

test('imports verl configurations with old and new keys, and explains every key', async ({
  page,
}) => {
  await page.goto(`${service.url}/rewards?view=import`)
  const text = page.getByLabel('Configuration', { exact: true })
  const read = page.getByRole('button', { name: 'Convert' })
  await expect(read).toBeDisabled()
  for (const [yaml, shape] of [
    [legacy, 'legacy'],
    [current, 'current'],
  ] as const) {
    await text.fill(yaml)
    await read.click()
    const result = page.locator(`[data-imported="${shape}"]`)
    await expect(result).toContainText('No problems found.')
    const settings = yaml.split('\n').filter((line) => /^\s*\w+: \S/.test(line))
    await expect(result.locator('[data-key]')).toHaveCount(settings.length)
    await expect(result.locator('[data-status="unknown"]')).toHaveCount(0)
  }
})

test('suggests the key for a typo; the reward is copied, and opened in the playground', {
  tag: '@full',
}, async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.goto(`${service.url}/rewards?view=import`)
  await page
    .getByLabel('Configuration', { exact: true })
    .fill(
      'reward_model.reward_manager=dapo reward_model.reward_manger=dapo +reward_model.reward_kwargs.max_resp_len=100',
    )
  await page.keyboard.press('Control+Enter')
  const typo = page.locator('[data-key="reward_model.reward_manger"]')
  await expect(typo).toContainText('Unknown')
  await expect(typo).toContainText('did you mean reward_model.reward_manager?')
  await expect(page.getByRole('region', { name: 'Problems' })).toContainText(
    'reward_model.reward_manager?',
  )
  await page.getByRole('button', { name: 'Unknown 1' }).click()
  await expect(page.locator('[data-key]')).toHaveCount(1)

  await page.getByRole('button', { name: 'Copy as JSON' }).click()
  const copied = await page.evaluate(() => navigator.clipboard.readText())
  expect(JSON.parse(copied)).toEqual({ manager: 'dapo', kwargs: { max_resp_len: 100 } })
  await page.getByRole('button', { name: 'Copy as curl' }).first().click()
  const curl = await page.evaluate(() => navigator.clipboard.readText())
  expect(curl).toContain(`${service.url}/api/trpc/batches.submit`)

  await page.getByRole('link', { name: 'Try it' }).click()
  await expect(page.getByLabel('Reward manager')).toHaveText('dapo')
  await score(page)
  await expect(tried(page)).toContainText('overlong_buffer_cfg is not enabled')
})

test('reports a text that is not a configuration', { tag: '@full' }, async ({ page }) => {
  await page.goto(`${service.url}/rewards?view=import`)
  await page.getByLabel('Configuration', { exact: true }).fill('reward: [1, 2')
  await page.getByRole('button', { name: 'Convert' }).click()
  await expect(page.getByRole('region', { name: 'Problems' })).toBeVisible()
  await expectAccessible(page)
})
