import { expect, type Page } from '@playwright/test'
import { HOSTILE_TEXTS } from '../components/rollouts/testing/hostile-texts.ts'
import { dataUrl, noisePng } from '../testkit/service/noise-png.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible } from './fixtures/looks.ts'
import { type TestService, test } from './fixtures/service.ts'

let service: TestService

test.beforeAll(({ sharedService }) => {
  service = sharedService
})

async function submit(
  run: string,
  step: number,
  responses: readonly string[],
  prompt: unknown = '6 * 7?',
): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run, step, reward: { function: { name: 'gsm8k' } } },
    samples: responses.map((response) => ({
      ...{ uid: 'q', dataSource: 'openai/gsm8k', prompt, response, groundTruth: '42' },
    })),
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  return batchId
}

const RESPONSE = `<think>
I multiply **twice**.
</think>
# Plan

Two ways, at $5 each:

\\[ \\sum_{i=1}^{6} 7 = 42 \\]

\`\`\`python
print(6 * 7)  # forty-two
\`\`\`

| way | result |
|---|---|
| one | $6 \\times 7$ |

<tool_call>
{"name": "check", "arguments": {"b": 7}}
</tool_call>
<tool_response name="check">
right
</tool_response>

So 2*3*7 = 42, see [the page](http://hostile.invalid/page).
#### 42`

const LONG = `${Array.from({ length: 1_000 }, (_, i) => `${i % 40 === 0 ? `## Part ${i / 40}\n\n` : ''}Line ${i} has $x_{${i}}$ and **words** of a solution, and goes on for a while so that it fills the paragraph.`).join('\n\n')}\n\n#### 42`

const panelOf = (page: Page, id: string) => page.locator(`[data-panel="${id}"]`)

test('renders Markdown, formulas, code, reasoning and tools, and highlights the answer', async ({
  page,
}) => {
  const prompt = [
    { role: 'system', content: 'Answer with `####`.' },
    { role: 'user', content: 'What is $6 \\times 7$?' },
  ]
  const batch = await submit('rendered', 1, [RESPONSE], prompt)
  const errors = watchErrors(page)
  await page.goto(`${service.url}/samples?batch=${batch}`)
  // The first lines of the texts are loaded separately from the list.
  const row = page.locator(`[data-sample="${batch}-0"]`)
  await expect(row).toContainText('What is $6 \\times 7$?')
  await expect(row).toContainText('I multiply **twice**.')
  await row.getByRole('button').click()

  const panel = panelOf(page, `${batch}-0`)
  await expect(panel.locator('[data-math="display"] .katex')).toBeVisible()
  await expect(panel.locator('[data-math="inline"]')).toHaveCount(2)
  await expect(panel.getByText('Two ways, at $5 each:')).toBeVisible()
  await expect(panel.locator('.hljs-comment')).toHaveText('# forty-two')
  await expect(panel.getByRole('heading', { name: 'Plan' })).toBeVisible()
  await expect(panel.getByRole('cell', { name: 'one' })).toBeVisible()
  await expect(panel.locator('[data-tool-call="check"]')).toContainText('"b": 7')
  await expect(panel.locator('[data-tool-result="check"]')).toContainText('right')
  await expect(panel.getByText('2*3*7 = 42')).toBeVisible()
  await expect(panel.getByText('http://hostile.invalid/page')).toBeVisible()
  await expect(panel.locator('[data-mark="answer"]')).toHaveText('42')
  await expect(panel.getByText('I multiply twice.')).toHaveCount(0)
  await panel.getByRole('button', { name: /^Reasoning 21 characters/ }).click()
  await expect(panel.getByText('I multiply twice.')).toBeVisible()
  await expectAccessible(page)

  await panel.getByRole('button', { name: 'Raw' }).click()
  await expect(panel.getByText('\\[ \\sum_{i=1}^{6} 7 = 42 \\]')).toBeVisible()
  await expect(panel.locator('.katex')).toHaveCount(0)
  await page.reload()
  await expect(panel.getByText('<tool_response name="check">')).toBeVisible()
  await expect(panel.locator('[data-mark="answer"]')).toHaveText('42')
  await panel.getByRole('button', { name: 'Rendered' }).click()
  await expect(panel.locator('[data-math="display"] .katex')).toBeVisible()
  errors.expectNone()
})

test('images of messages are loaded once, when they come into view', async ({ page }) => {
  const part = (seed: string) => ({
    ...{ type: 'image_url', image_url: { url: dataUrl(noisePng(seed, 320)) } },
  })
  const prompt = [
    { role: 'user', content: [part('top'), { type: 'text', text: 'Why?\n\n'.repeat(400) }] },
    { role: 'user', content: [part('bottom')] },
  ]
  const batch = await submit('pictured', 1, ['#### 42', '#### 41'], prompt)
  const errors = watchErrors(page)
  const loaded: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/images/')) loaded.push(request.url())
  })
  await page.goto(`${service.url}/samples?batch=${batch}&sample=${batch}-1`)
  const images = panelOf(page, `${batch}-1`).getByAltText('Attached to the message')
  const width = (at: number) =>
    images.nth(at).evaluate((image) => (image as HTMLImageElement).naturalWidth)
  await expect.poll(() => width(0)).toBe(320)
  await expectAccessible(page)
  expect(loaded).toHaveLength(1)
  await page.keyboard.press('j')
  const next = panelOf(page, `${batch}-0`).getByAltText('Attached to the message')
  await next.nth(1).scrollIntoViewIfNeeded()
  await expect
    .poll(() => next.nth(1).evaluate((image) => (image as HTMLImageElement).naturalWidth))
    .toBe(320)
  // The sibling's first image came from the cache.
  expect(new Set(loaded).size).toBe(2)
  expect(loaded).toHaveLength(2)
  errors.expectNone()
})

test('hostile texts run nothing and load nothing', async ({ page }) => {
  const texts = HOSTILE_TEXTS.filter((text) => /__hostile|hostile\.invalid/.test(text))
  expect(texts.length).toBeGreaterThan(15)
  const batch = await submit('inert', 1, texts, [{ role: 'user', content: texts.join('\n\n') }])
  const foreign: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(service.url)) foreign.push(request.url())
  })
  page.on('dialog', (dialog) => foreign.push(dialog.message()))
  await page.goto(`${service.url}/samples?batch=${batch}&sample=${batch}-${texts.length - 1}`)
  await expectLive(page)
  for (let i = texts.length - 1; i >= 0; i--) {
    const panel = panelOf(page, `${batch}-${i}`)
    await expect(panel.locator('[data-rendered="true"] .rollout-md').first()).toBeVisible()
    await expect(
      panel.locator('a[href*="hostile"], a[href^="javascript"], img, script, iframe'),
    ).toHaveCount(0)
    if (i > 0) await page.keyboard.press('j')
  }
  expect(await page.evaluate(() => '__hostile' in window)).toBe(false)
  expect(foreign).toEqual([])
  expect(page.url()).toContain(service.url)
})

test('tokens are colored by their scores, with a legend and a table', async ({ page }) => {
  const tokens = {
    ...{ component: null, message: 0, starts: [0, 2, 5, 9], ends: [2, 5, 9, 9] },
    ...{ scores: [-2, 0.5, 1.25, 3], omitted: 7, problem: null },
  }
  const unplaced = { ...tokens, starts: null, ends: null, problem: 'the model scores steps' }
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'tokens', step: 1 },
    samples: [tokens, unplaced].map((own) => ({
      ...{ uid: 'q', dataSource: 'x', prompt: '6 * 7?', response: 'It **is** 42', score: 3 },
      rewards: { tokens: [own] },
    })),
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  await page.goto(`${service.url}/samples?batch=${batchId}&sample=${batchId}-0`)
  const panel = panelOf(page, `${batchId}-0`)
  const marks = panel.locator('mark[data-mark="token"]:not([aria-hidden] mark)')
  await expect(marks.first()).toHaveText('It')
  await expect(marks.first()).toHaveAttribute('title', 'Token "It": −2')
  await expect(marks.first()).toHaveAttribute('data-sign', 'minus')
  await expect(panel.locator('strong mark')).toHaveText('is')
  await expect(panel.locator('[data-token-legend]')).toContainText('−2')
  const rows = panel.locator('[data-token-scores="4"] tbody tr')
  await expect(rows.nth(2)).toContainText('+1.250')
  await expect(rows.nth(3)).toContainText('Part of a character')
  await expect(panel).toContainText('4 scores, 7 earlier ones not stored')
  await expectStateAccessible(page)
  await page.goto(`${service.url}/samples?batch=${batchId}&sample=${batchId}-1`)
  const other = panelOf(page, `${batchId}-1`)
  await expect(other.locator('[data-token-legend]')).toContainText('the model scores steps')
  await expect(other.locator('mark')).toHaveCount(0)
  await expect(other.locator('[data-token-scores="4"] tbody tr').first()).toContainText('7')
})

test('a response of 100 kB is rendered in chunks, with an outline and a jump to the answer', {
  tag: '@full',
}, async ({ page }) => {
  expect(LONG.length).toBeGreaterThan(100_000)
  const batch = await submit('long', 1, [LONG])
  await page.goto(`${service.url}/samples?batch=${batch}&sample=${batch}-0`)
  const panel = panelOf(page, `${batch}-0`)
  const pieces = panel.locator('[data-piece]')
  const more = panel.getByRole('button', { name: /^Show all 1\d\d,\d{3} characters/ })
  // A chunk that renders between hover and press would move the button away from the mouse, so the click is retried.
  await expect(async () => {
    if (await more.isVisible()) {
      await more.hover()
      await page.mouse.down()
      // While the mouse button is down, a chunk above the button changes its height, as if it were rendered.
      await pieces.first().evaluate((piece) => {
        piece.style.paddingTop = '300px'
      })
      await page.mouse.up()
    }
    await expect.poll(() => pieces.count(), { timeout: 2_000 }).toBeGreaterThan(20)
  }).toPass()
  await expect(panel.locator('.katex').first()).toBeVisible()
  expect(await panel.locator('[data-rendered="true"]').count()).toBeLessThan(12)
  await panel.getByRole('button', { name: 'Show in text' }).click()
  await expect(panel.locator('[data-mark="answer"]')).toBeInViewport()
  expect(await panel.locator('[data-rendered="true"]').count()).toBeLessThan(24)
  await panel.getByRole('button', { name: 'Outline' }).click()
  await page.getByRole('menuitem', { name: 'Part 12' }).click()
  await expect(panel.getByRole('heading', { name: 'Part 12' })).toBeInViewport()
  expect(
    await page.evaluate(() => [scrollY, document.documentElement.scrollHeight - innerHeight]),
  ).toEqual([0, 0])
})

test('siblings are compared side by side, with differences, keys and a link', async ({ page }) => {
  const batch = await submit('siblings', 1, [
    'Six times seven is forty-two, as everyone knows.\n#### 42',
    'Six times seven is forty-one, as everyone knows.\n#### 41',
    'I do not know.',
  ])
  const errors = watchErrors(page)
  await page.goto(`${service.url}/samples?batch=${batch}&sample=${batch}-0`)
  await expect(panelOf(page, `${batch}-0`)).toBeVisible()
  // Keys work once the page is hydrated.
  await expectLive(page)
  await page.keyboard.press('c')
  const pair = (left: number, right: number) =>
    page.locator(`[data-side-by-side="${batch}-${left} ${batch}-${right}"]`)
  const both = pair(0, 1)
  await expect(both.getByRole('heading', { name: 'Prompt Same for both' })).toBeVisible()
  await expect(both.locator('[data-side="left"] [data-mark="removed"]').first()).toHaveText('two')
  await expect(both.locator('[data-side="right"] [data-mark="added"]').first()).toHaveText('one')
  await expect(both.getByRole('status')).toContainText('in common, compared by word')
  await expectAccessible(page)
  await expectFits(page)

  await page.keyboard.press('j')
  await expect(pair(0, 2)).toBeVisible()
  await page.keyboard.press('[')
  await page.keyboard.press('j')
  await expect(pair(1, 2)).toBeVisible()
  await page.keyboard.press('d')
  await expect(page.locator('[data-mark="removed"], [data-mark="added"]')).toHaveCount(0)
  await expect(page).toHaveURL(new RegExp(`left=${batch}-1&right=${batch}-2&side=left&diff=off$`))
  await page.reload()
  await expect(pair(1, 2)).toBeVisible()
  await expect(page.getByLabel('Highlight differences')).not.toBeChecked()
  await expect(page.locator('[data-side="left"] [data-active="true"]')).toBeVisible()
  await expectLive(page)
  await page.keyboard.press('Escape')
  await expect(panelOf(page, `${batch}-1`)).toBeVisible()
  errors.expectNone()
})

test('the same prompt is compared at two steps, on a phone too', { tag: '@full' }, async ({
  page,
}) => {
  const first = await submit('steps', 1, ['It is forty-one.\n#### 41'])
  const second = await submit('steps', 2, ['It is forty-two.\n#### 42'])
  await page.setViewportSize({ width: 390, height: 844 })
  await page.goto(`${service.url}/samples/compare?left=${first}-0&right=${second}-0`)
  const both = page.locator('[data-side-by-side]')
  await expect(both).toContainText('Step 1')
  await expect(both).toContainText('Step 2')
  await expect(both.getByText('same for both').first()).toBeVisible()
  await expectFits(page)
  await expectStateAccessible(page)
  await page.goto(`${service.url}/samples/compare?left=nonsense`)
  await expect(page.getByText('Select two samples')).toBeVisible()
})
