import { readFileSync } from 'node:fs'
import { expect, type Locator, type Page } from '@playwright/test'
import { choose } from './fixtures/choose.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { expectStateAccessible, looksOf } from './fixtures/looks.ts'
import { type TestService, test } from './fixtures/service.ts'

let service: TestService
let batch = ''

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const samples = Array.from({ length: 120 }, (_, i) => ({
    uid: `q-${Math.floor(i / 8)}`,
    dataSource: i % 3 === 0 ? 'lighteval/MATH' : 'openai/gsm8k',
    prompt: i % 4 === 0 ? [{ role: 'user', content: `Question ${i}\nin lines` }] : `Question ${i}`,
    response: `${i % 5 === 0 ? 'As the Grader wants it. ' : ''}So it is 42% of it.\n#### ${i % 2 === 0 ? 42 : 41}`,
    groundTruth: '42',
    responseLength: 20 + i,
  }))
  for (const step of [1, 2]) {
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'samples-run', step, samples },
    } as never)
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    batch = batchId
  }
})

const rowsOf = (page: Page) => page.getByRole('table', { name: 'Samples' }).locator('[data-sample]')

test('shows tool calls with name, arguments and result, and labels rescored samples', {
  tag: '@full',
}, async ({ page }) => {
  const call = { id: 'call_1', type: 'function', function: { name: 'mul', arguments: '{"a":6}' } }
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'tools', step: 1, reward: { function: { name: 'gsm8k' } } },
    samples: [
      {
        ...{ uid: 'q', dataSource: 'openai/gsm8k', groundTruth: '42' },
        prompt: [
          { role: 'user', content: '6 * 7?' },
          { role: 'assistant', content: null, tool_calls: [call] },
          { role: 'tool', name: 'mul', tool_call_id: 'call_1', content: 'forty-two' },
        ],
        response:
          'Once more.\n<tool_call>\n{"name": "check", "arguments": {"b": 7}}\n</tool_call>\n<tool_response name="check">\nright\n</tool_response>\n#### 42',
      },
    ],
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const again = await service.api.batches.rescore.mutate({
    batchId,
    reward: { function: { name: 'gsm8k', kwargs: { method: 'flexible' } } },
  })
  await page.goto(`${service.url}/samples?run=tools&sample=${batchId}-0`)
  const panel = page.locator(`[data-panel="${batchId}-0"]`)
  await expect(panel.locator('[data-tool-call="mul"]')).toContainText('"a": 6')
  await expect(panel.locator('[data-tool-result="mul"]')).toContainText('forty-two')
  await expect(panel.locator('[data-tool-call="check"]')).toContainText('"b": 7')
  await expect(panel.locator('[data-tool-result="check"]')).toContainText('right')
  await expect(panel.getByText('Empty.')).toHaveCount(0)
  await expectAccessible(page)

  const marked = rowsOf(page).filter({ hasText: again.batchId })
  await expect(marked.getByText('Rescored')).toBeVisible()
  await page.goto(`${service.url}/samples?run=tools&rescored=false`)
  await expect(rowsOf(page)).toHaveCount(1)
  await expect(rowsOf(page).getByText('Rescored')).toHaveCount(0)
})

test('a batch links to the samples of its no-signal groups, which are filtered by failed tool calls', async ({
  page,
}) => {
  const errors = watchErrors(page)
  const call = { id: 'c', type: 'function', function: { name: 'mul', arguments: '{"a":6}' } }
  const withTool = (isError: boolean, answer: number) => [
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c', content: 'a result', is_error: isError },
    { role: 'assistant', content: `#### ${answer}` },
  ]
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'no-signal', step: 1, reward: { function: { name: 'gsm8k' } } },
    samples: [
      ['equal', withTool(true, 41)],
      ['equal', withTool(false, 41)],
      ['varied', withTool(true, 41)],
      ['varied', withTool(false, 42)],
    ].map(([uid, response]) => ({
      ...{ uid, dataSource: 'openai/gsm8k', prompt: '6 * 7?', response, groundTruth: '42' },
    })),
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  await page.goto(`${service.url}/batches/${batchId}`)
  await page.getByRole('link', { name: '1 no-signal, 50 %' }).click()
  await expect(rowsOf(page)).toHaveCount(2)
  await page.getByRole('button', { name: 'More filters' }).click()
  await choose(page.getByRole('combobox', { name: 'Tool calls' }), 'A call failed')
  await expect(rowsOf(page)).toHaveCount(1)
  await rowsOf(page).click()
  const panel = page.locator(`[data-panel="${batchId}-0"]`)
  await expect(panel.locator('[data-tool-result]')).toContainText('Failed')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'More filters' }).click()
  await choose(page.getByRole('combobox', { name: 'Group signal' }), 'All correct')
  await page.keyboard.press('Escape')
  await expect(page.getByText('Groups have a signal only after')).toBeVisible()
  await page.getByRole('button', { name: 'Remove group signal filter' }).click()
  await expect(rowsOf(page)).toHaveCount(2)
  errors.expectNone()
})

test('one user searches and saves a view; another opens it, annotates, exports and rescores', async ({
  page,
  browser,
}) => {
  test.setTimeout(120_000)
  const errors = watchErrors(page)
  await page.goto(`${service.url}/samples?run=samples-run`)
  await expect(rowsOf(page).first()).toBeVisible()
  await expectLive(page)

  await page.keyboard.press('f')
  const search = page.getByLabel('Search texts')
  await expect(search).toBeFocused()
  await search.fill('the GRADER wants')
  await search.press('Enter')
  await expect(page).toHaveURL(/text=the\+GRADER\+wants/)
  await expect(page.getByText('48 loaded')).toBeVisible()
  await expect(page.getByText('240 texts searched')).toBeVisible()

  await page.getByRole('textbox', { name: 'Step' }).fill('2')
  await page.getByRole('textbox', { name: 'Step' }).press('Enter')
  await page.getByRole('button', { name: 'More filters' }).click()
  const more = page.getByRole('dialog', { name: 'More filters' })
  await more.getByLabel('Response length from').fill('60')
  await more.getByLabel('Response length from').press('Enter')
  await expect(page.getByText('16 loaded')).toBeVisible()
  await expectStateAccessible(page)
  await page.keyboard.press('Escape')
  await expect(more).toHaveCount(0)

  await page.getByRole('button', { name: 'Saved views' }).click()
  await page.getByRole('menuitem', { name: 'Save as new view…' }).click()
  const naming = page.getByRole('dialog', { name: 'Save as new view' })
  await naming.getByLabel('Name').fill('Grader talk')
  await naming.getByRole('button', { name: 'Save' }).click()
  await expect(page).toHaveURL(/view=\d+/)
  await expect(page.getByRole('button', { name: 'Saved views' })).toContainText('Grader talk')
  const id = new URL(page.url()).searchParams.get('view')
  errors.expectNone()

  const stranger = await browser.newContext({ acceptDownloads: true })
  const theirs = await stranger.newPage()
  const theirErrors = watchErrors(theirs)
  await theirs.goto(`${service.url}/samples?view=${id}`)
  await expect(theirs).toHaveURL(/step=2.*lengthMin=60.*text=the\+GRADER\+wants/)
  const rows = rowsOf(theirs)
  await expect(rows).toHaveCount(16)
  await rows.first().getByRole('button').click()
  const panel = theirs.locator('[data-panel]')
  await expect(panel.locator('mark').first()).toHaveText('the Grader wants')

  await theirs.keyboard.press('a')
  await expect(theirs.getByRole('combobox', { name: 'Label' })).toBeFocused()
  await theirs.keyboard.type('reward hack')
  await panel.getByRole('button', { name: 'Add note' }).click()
  await panel.getByLabel('Note').fill('names its grader')
  await panel.getByRole('button', { name: 'Annotate', exact: true }).click()
  await expect(panel.locator('[data-annotation]')).toContainText('names its grader')
  await expectStateAccessible(theirs)
  await theirs.getByRole('button', { name: 'Close (Esc)' }).click()
  const boxes = theirs.getByRole('checkbox', { name: /^Select b/ })
  await boxes.nth(1).click()
  await boxes.nth(4).click({ modifiers: ['Shift'] })
  const bulk = theirs.getByRole('region', { name: 'Selected samples' })
  await expect(bulk).toContainText('4 samples selected')
  await bulk.getByRole('button', { name: 'Annotate' }).click()
  const annotate = theirs.getByRole('dialog', { name: 'Annotate samples' })
  await annotate.getByRole('combobox', { name: 'Label' }).fill('reward hack')
  await annotate.getByRole('button', { name: 'Annotate' }).click()
  const annotated = annotate.locator('[data-annotated]')
  await expect(annotated).toHaveText('4 samples annotated.')
  await annotate.getByRole('button', { name: 'Annotate' }).click()
  await expect(annotated).toHaveText('0 samples annotated, 4 already annotated.')
  await annotate.getByRole('button', { name: 'Close' }).first().click()

  await theirs.getByRole('button', { name: 'More filters' }).click()
  await choose(theirs.getByLabel('Annotations'), 'reward hack')
  await theirs.keyboard.press('Escape')
  await expect(rows).toHaveCount(5)
  const shown = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('data-sample')))
  await theirs.getByRole('button', { name: 'Export' }).click()
  const sheet = theirs.getByRole('dialog', { name: 'Export samples' })
  await expect(sheet.locator('[data-export-count]')).toContainText('5 matching samples')
  const downloading = theirs.waitForEvent('download')
  await sheet.getByRole('button', { name: 'Export' }).click()
  const download = await downloading
  await expect(sheet.locator('[data-export-done]')).toContainText('5 rows in samples.csv')
  const [head, ...lines] = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\r\n')
  expect(head).toMatch(/^batchId,index,.*annotations/)
  expect(lines.map((line) => line.split(',').slice(0, 2).join('-')).sort()).toEqual(shown.sort())
  expect(lines.join()).toContain('names its grader')
  await sheet.getByText('Parquet', { exact: true }).click()
  const downloadingParquet = theirs.waitForEvent('download')
  await sheet.getByRole('button', { name: 'Export' }).click()
  const parquet = await downloadingParquet
  await expect(sheet.locator('[data-export-done]')).toContainText('samples.parquet')
  expect(readFileSync(await parquet.path()).toString('latin1', 0, 4)).toBe('PAR1')
  await sheet.getByRole('button', { name: 'Close' }).first().click()

  await theirs.getByRole('checkbox', { name: 'Select loaded samples' }).click()
  await bulk.getByRole('button', { name: 'Rescore' }).click()
  const rescore = theirs.getByRole('dialog', { name: 'Rescore samples' })
  await expect(rescore).toContainText('5 samples of 1 batch')
  await choose(rescore.getByLabel('Reward', { exact: true }), 'gsm8k')
  await expectStateAccessible(theirs)
  await rescore.getByRole('button', { name: 'Rescore' }).click()
  const outcome = rescore.getByRole('list', { name: 'Rescored batches' })
  await expect(outcome).toContainText('of them added with their groups')
  const made = (await outcome.getByRole('link').innerText()).trim()
  const summary = await service.api.batches.wait.query({ batchId: made, waitMs: 60_000 })
  expect(summary).toMatchObject({ rescoredFrom: batch, status: 'completed' })
  // Another reward makes another batch.
  await choose(rescore.getByLabel('Reward', { exact: true }), 'math_verify')
  await expect(outcome).toHaveCount(0)
  await rescore.getByRole('button', { name: 'Rescore' }).click()
  await expect(outcome.getByRole('link')).not.toHaveText(made)
  theirErrors.expectNone()
  await stranger.close()
})

test('a text search shows a new annotation of the open sample', async ({ page }) => {
  const id = `${batch}-115`
  await page.goto(`${service.url}/samples?batch=${batch}&text=Grader&columns=labels&sample=${id}`)
  const row = page.getByRole('table', { name: 'Samples' }).locator(`[data-sample="${id}"]`)
  await expect(row).toBeVisible()
  const panel = page.locator('[data-panel]')
  await panel.getByRole('combobox', { name: 'Label' }).fill('odd length')
  await panel.getByRole('button', { name: 'Annotate', exact: true }).click()
  await expect(panel.locator('[data-annotation]', { hasText: 'odd length' })).toBeVisible()
  await expect(row).toContainText('odd length')
  await panel.getByRole('button', { name: 'Delete “odd length”' }).click()
  await expect(row).not.toContainText('odd length')
})

test('shows the invalid parameters of a link, and repeats a query that timed out', {
  tag: '@full',
}, async ({ page }) => {
  await page.goto(
    `${service.url}/samples?run=samples-run&scoreMin=abc&columns=score,nonsense&view=999`,
  )
  const notices = page.getByRole('status').filter({ hasText: 'was ignored' })
  await expect(notices).toContainText('The filter scoreMin=abc was ignored')
  await expect(notices).toContainText('was deleted')
  await expect(rowsOf(page).first()).toBeVisible()

  let refuse = true
  await page.route(/samples\.list/, (route) =>
    refuse
      ? route.fulfill({
          status: 504,
          json: {
            error: {
              message: 'The query was stopped after its time.',
              code: -32603,
              data: {
                ...{ code: 'TIMEOUT', httpStatus: 504, reason: 'query_timeout' },
                ...{ hint: 'Narrow it.', requestId: 'r', path: 'samples.list' },
              },
            },
          },
        })
      : route.continue(),
  )
  await page.goto(`${service.url}/samples?run=samples-run&text=nothing+has+this`)
  await expect(page.getByText('Query timed out')).toBeVisible()
  await expectAccessible(page)
  refuse = false
  await expect(page.getByText('No matching samples')).toBeVisible()
})

test('a failed count or page of samples shows its error, and can be retried', {
  tag: '@full',
}, async ({ page }) => {
  let isRefusing = true
  const data = { code: 'BAD_REQUEST', httpStatus: 400, reason: 'invalid_input', path: 'samples' }
  await page.route(/api\/trpc/, (route) =>
    isRefusing &&
    /samples\.(count|byBatch)|"cursor":"/.test(decodeURIComponent(route.request().url()))
      ? route.fulfill({ status: 400, json: { error: { message: 'Refused.', code: -32600, data } } })
      : route.continue(),
  )
  const sheetOf = (name: string) => page.getByRole('dialog', { name: `${name} samples` })
  const retry = async (place: Locator, shows: RegExp) => {
    const failed = place.getByRole('alert').filter({ hasText: 'Refused.' })
    await expect(failed).toBeVisible()
    isRefusing = false
    await failed.getByRole('button', { name: 'Try again' }).click()
    await expect(place).toContainText(shows)
    isRefusing = true
  }
  const path = `${service.url}/samples?run=samples-run`
  await page.goto(path)
  await page.getByRole('button', { name: 'Export' }).click()
  await retry(sheetOf('Export'), /\d matching samples will be exported/)
  await page.goto(path)
  await page.getByRole('checkbox', { name: 'Select loaded samples' }).click()
  const bulk = page.getByRole('region', { name: 'Selected samples' })
  await bulk.getByRole('button', { name: 'Select all matching' }).click()
  await bulk.getByRole('button', { name: 'Annotate' }).click()
  await retry(sheetOf('Annotate'), /All \d+ matching samples will be annotated/)
  await sheetOf('Annotate').getByRole('button', { name: 'Close' }).first().click()
  await bulk.getByRole('button', { name: 'Rescore' }).click()
  await retry(sheetOf('Rescore'), /\d samples of \d batches/)
  await sheetOf('Rescore').getByRole('button', { name: 'Close' }).first().click()
  const table = page.getByRole('region', { name: 'Samples', exact: true })
  await table.evaluate((node) => node.scrollTo(0, node.scrollHeight))
  await expect(table.getByRole('alert')).toContainText('Refused.')
  isRefusing = false
  await table.getByRole('button', { name: 'Try again' }).click()
  await expect(page.getByText('200+ loaded')).toBeVisible()
})

test('a changed view keeps the filters that this version cannot read', { tag: '@full' }, async ({
  page,
}) => {
  const { id } = await service.api.views.save.mutate({
    ...{ page: 'samples', name: 'Of a later version' },
    state: 'run=samples-run&later=1&scoreMin=abc',
  })
  await page.goto(`${service.url}/samples?view=${id}`)
  await expect(page.getByText('The filter later=1 was ignored')).toBeVisible()
  await choose(page.getByRole('combobox', { name: 'Sort by' }), 'Slowest first')
  await page.getByRole('button', { name: 'Saved views' }).click()
  await page.getByRole('menuitem', { name: 'Save changes' }).click()
  await expect
    .poll(async () => (await service.api.views.get.query({ id })).state)
    .toBe('run=samples-run&sort=slowest&scoreMin=abc&later=1')
})

test('a text search continues by itself until it is stopped', async ({ page }) => {
  let isEndless = true
  let requests = 0
  await page.route(/samples\.list/, async (route) => {
    requests++
    const response = await route.fetch()
    const body = await response.text()
    await route.fulfill({
      response,
      body: isEndless
        ? body
            .replaceAll('"nextCursor":null', '"nextCursor":"_999999999"')
            .replaceAll('"all":true', '"all":false')
        : body,
    })
  })
  await page.goto(`${service.url}/samples?run=samples-run&text=nothing+has+this`)
  await expect(page.getByText(/(\d+) of \1 texts searched/)).toBeVisible()
  await expect.poll(() => requests).toBeGreaterThan(3)
  await page.getByRole('button', { name: 'Stop', exact: true }).click()
  await expect(page.getByText('No matches so far')).toBeVisible()
  await expectAccessible(page)
  let stoppedAt = 0
  const hasStopped = () => {
    const before = stoppedAt
    stoppedAt = requests
    return before === requests
  }
  await expect.poll(hasStopped, { intervals: [1_000] }).toBe(true)
  const goOn = page.getByRole('button', { name: 'Continue search' })
  await goOn.click()
  await expect.poll(() => requests).toBeGreaterThan(stoppedAt + 1)
  isEndless = false
  await expect(page.getByText('No matching samples')).toBeVisible()
  await expect(goOn).toHaveCount(0)
})

for (const width of [1280, 390]) {
  for (const colorScheme of ['light', 'dark'] as const) {
    const looks = [
      ['list', ''],
      ['searched', '&text=Grader&extra=acc:present'],
      ['panel', `&text=Grader&sample=${'BATCH'}-0`],
    ] as const
    for (const [name, query] of looksOf(looks, colorScheme, width)) {
      test(`${name} fits and is accessible, ${colorScheme}, ${width} px`, {
        tag: '@full',
      }, async ({ browser }) => {
        const context = await browser.newContext({
          ...{ colorScheme, viewport: { width, height: 800 } },
        })
        const page = await context.newPage()
        const errors = watchErrors(page)
        await page.goto(`${service.url}/samples?run=samples-run${query.replace('BATCH', batch)}`)
        await expect(page.getByRole('button', { name: 'Saved views' }).first()).toBeAttached()
        await expect(
          name === 'panel' ? page.locator('[data-panel]') : page.getByLabel('Search texts'),
        ).toBeVisible()
        await expectAccessible(page)
        await expectFits(page)
        errors.expectNone()
        await context.close()
      })
    }
  }
}
