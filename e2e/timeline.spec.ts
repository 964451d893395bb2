import { readFile } from 'node:fs/promises'
import { expect, type Locator, type Page } from '@playwright/test'
import type { TimelineDto } from '../server/contract/timeline.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { expectAccessible, expectFits, expectLive, watchErrors } from './fixtures/look.ts'
import { removeServers, type TestService, test } from './fixtures/service.ts'

let service: TestService
let rms: SimulatedServers[] = []
let batch = ''
let timeline: TimelineDto

test.beforeAll(async ({ sharedService }) => {
  service = sharedService
  const slow = ['--slow-share', '0.03', '--slow-ms', '1500']
  rms = await Promise.all([
    startSimulatedServers([
      ...['--model', 'uneven', '--latency', 'uniform:40,300', ...slow],
      ...['--draw-by', 'text', '--faults', '{"nan":0.03}'],
    ]),
    startSimulatedServers(['--model', 'steady', '--latency', 'uniform:60,200']),
  ])
  for (const rm of rms) {
    await service.api.servers.register.mutate({
      ...{ name: rm.model, url: rm.url, engine: 'vllm', maxInFlight: 32 },
    })
  }
  batch = await submit('uneven', 40, 4)
  await service.api.batches.wait.query({ batchId: batch, waitMs: 60_000 })
  timeline = await service.api.batches.timeline.query({ batchId: batch })
})
test.afterAll(async () => {
  await removeServers(service)
  await Promise.all(rms.map((rm) => rm.stop()))
})

async function submit(model: string, groups: number, size: number): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'timeline', step: 1, groupSize: size, reward: { model } },
    samples: Array.from({ length: groups * size }, (_, i) => ({
      uid: `q-${Math.floor(i / size)}`,
      dataSource: 'openai/gsm8k',
      prompt: 'What is 6 * 12?',
      response: `${model} #### ${i}`,
    })),
  })
  return batchId
}

const plotOf = (page: Page) => page.locator('[data-timeline]')
const reached = (page: Page) => page.locator('[data-timeline-reached]')
const tableOf = (page: Page) => page.getByRole('table', { name: 'Group timeline' })
const plain = (text: string) => text.replace(/\s+/g, ' ').trim()

async function open(page: Page, query = ''): Promise<Locator> {
  await page.goto(`${service.url}/batches/${batch}${query}`)
  await expect(plotOf(page)).toBeVisible()
  await expectLive(page)
  return plotOf(page)
}

function groupsOfApi() {
  const { groups, samples } = timeline
  return groups.no.map((no, i) => {
    const ends = samples.group.flatMap((of, at) =>
      of === no ? [{ index: samples.index[at], endedMs: samples.endedMs[at] as number }] : [],
    )
    ends.sort((a, b) => a.endedMs - b.endedMs)
    const [before, last] = ends.slice(-2)
    const stragglerDelayMs = (last?.endedMs ?? 0) - (before?.endedMs ?? 0)
    return { uid: groups.uid[i], seq: groups.seq[i], last, stragglerDelayMs }
  })
}

test('keys move between groups and samples, and the table has the same numbers', {
  tag: '@full',
}, async ({ page }) => {
  const errors = watchErrors(page)
  const plot = await open(page)
  await plot.focus()
  const texts: string[] = []
  for (let i = 0; i < 5; i++) {
    await page.keyboard.press('ArrowDown')
    await expect(reached(page)).toContainText(`Group ${i + 1}, `)
    texts.push(plain(await reached(page).innerText()))
  }
  await page.keyboard.press('ArrowRight')
  await expect(reached(page)).toContainText(/Sample #\d+ · dispatched at/)
  await page.keyboard.press('Home')
  await expect(reached(page)).toContainText('Group 1, ')
  await page.keyboard.press('End')
  await expect(reached(page)).toContainText('Group 40, ')

  await page.getByRole('button', { name: 'Show Group timeline as a table' }).click()
  for (const [i, text] of texts.entries()) {
    const row = tableOf(page)
      .getByRole('row')
      .nth(i + 1)
    await expect(row.getByRole('cell').nth(4)).toBeVisible()
    const cells = (await row.getByRole('cell').allInnerTexts()).map(plain)
    expect(text).toContain(`Group ${cells[0]}, ${cells[1]} `)
    expect(text).toContain(`first dispatched at ${cells[2]} `)
    expect(text).toContain(`completed at ${cells[3]}`)
    expect(cells[4]).toContain('4 of 4')
  }
  await expectAccessible(page)
  errors.expectNone()
})

test('names the group with the longest straggler delay, its last sample, and the cause', {
  tag: '@full',
}, async ({ page }) => {
  const worst = groupsOfApi().reduce((a, b) => (b.stragglerDelayMs > a.stragglerDelayMs ? b : a))
  expect(worst.stragglerDelayMs).toBeGreaterThan(300)
  const plot = await open(page)
  await page.getByRole('button', { name: 'Straggler delay' }).click()
  await expect(page).toHaveURL(/sort=stragglerDelay/)
  await plot.focus()
  await page.keyboard.press('ArrowDown')
  await expect(reached(page)).toContainText(`Group ${worst.seq}, ${worst.uid} `)
  await expect(reached(page)).toContainText(
    new RegExp(`straggler delay .+ by sample #${worst.last?.index}: scoring`),
  )
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/samples?batch=${batch}&sample=${batch}-${worst.last?.index}`)
  await expect(page.locator(`[data-panel="${batch}-${worst.last?.index}"]`)).toBeVisible()
})

test('keeps order, zoom, rows and mini-batches in the URL', { tag: '@full' }, async ({ page }) => {
  const plot = await open(page)
  const box = await plot.boundingBox()
  if (box === null) throw new Error('no plot')
  await page.mouse.move(box.x + box.width * 0.4, box.y + 60)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.7, box.y + 80, { steps: 4 })
  await page.mouse.up()
  const window = page.locator('[data-timeline-window]')
  await expect(window).toContainText(/to .* · \d+ of 40 groups/)
  await page.getByRole('button', { name: 'Readable', exact: true }).click()
  await page.getByLabel('Groups per mini-batch').fill('16')
  await expect(page).toHaveURL(/from=\d+&to=\d+&chunk=16&rows=read/)
  const before = await window.innerText()
  await page.reload()
  await expectLive(page)
  await expect(window).toHaveText(before)
  await expect(page.getByText('· 3 mini-batches')).toBeVisible()
  await plotOf(page).focus()
  await page.keyboard.press('0')
  await expect(window).toHaveCount(0)
  await expect(page).not.toHaveURL(/from=/)
  await page.keyboard.press('+')
  await expect(window).toBeVisible()

  await page.getByRole('button', { name: 'Show Group timeline as a table' }).click()
  const ready = page.getByRole('region', { name: 'Mini-batches' }).getByRole('row')
  await expect(ready).toHaveCount(4)
  await expect(ready.nth(3)).toContainText('33 to 40')
})

test('the zoom follows the URL', async ({ page }) => {
  const plot = await open(page)
  const window = page.locator('[data-timeline-window]')
  await plot.focus()
  await page.keyboard.press('+')
  await expect(page).toHaveURL(/from=\d+&to=/)
  await expect(window).toBeVisible()
  await page.evaluate(() => history.pushState(null, '', location.pathname))
  await expect(window).toHaveCount(0)
  await page.goBack()
  await expect(window).toBeVisible()
})

test('reports that the browser cannot create the PNG', { tag: '@full' }, async ({ page }) => {
  // If a canvas exceeds the browser's memory, `toBlob` passes null to its callback.
  await page.addInitScript(() => {
    HTMLCanvasElement.prototype.toBlob = (done) => done(null)
  })
  await open(page)
  const save = async (kind: string) => {
    await page.getByRole('button', { name: 'Save as image' }).click()
    await page.getByRole('menuitem', { name: kind }).click()
  }
  await save('PNG')
  const alert = page.getByRole('alert').filter({ hasText: 'could not create the image' })
  await expect(alert).toBeVisible()
  await save('SVG')
  await expect(alert).toBeHidden()
})

test('saves the view as PNG and SVG', { tag: '@full' }, async ({ page }) => {
  await open(page)
  const save = async (kind: string) => {
    await page.getByRole('button', { name: 'Save as image' }).click()
    const download = page.waitForEvent('download')
    await page.getByRole('menuitem', { name: kind }).click()
    const file = await download
    expect(file.suggestedFilename()).toBe(
      `group-completion-${batch}.${kind.slice(0, 3).toLowerCase()}`,
    )
    return readFile(await file.path())
  }
  const png = await save('PNG')
  expect(png.subarray(0, 8)).toEqual(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'))
  // The image has twice the size of the chart in pixels, for high-density screens.
  expect(png.readUInt32BE(16)).toBe(2_560)
  expect(png.readUInt32BE(20)).toBeGreaterThan(900)
  const svg = (await save('SVG')).toString()
  const saved = await page.evaluate((text) => {
    const image = new DOMParser().parseFromString(text, 'image/svg+xml')
    return {
      broken: image.querySelector('parsererror')?.textContent ?? null,
      title: image.querySelector('title')?.textContent,
      about: image.querySelector('desc')?.textContent,
      paths: image.querySelectorAll('path').length,
    }
  }, svg)
  expect(saved).toMatchObject({
    broken: null,
    title: `Group timeline, ${batch} of timeline, step 1`,
  })
  expect(saved.about).toContain('n = 40 of 40 groups, 160 samples finished')
  expect(saved.paths).toBeGreaterThan(5)
  // The file is self-contained: no color is a CSS variable.
  expect(svg).not.toContain('var(')
})

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    test(`fits and is accessible, ${colorScheme}, ${width} px`, { tag: '@full' }, async ({
      page,
    }) => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height: 900 })
      const plot = await open(page)
      await plot.hover({ position: { x: width / 3, y: 200 } })
      await expect(page.locator('[data-timeline-tip]')).toBeVisible()
      await expectFits(page)
      await expectAccessible(page)
    })
  }
}

test('draws 2,000 live groups up to five times a second without long tasks', {
  tag: '@full',
}, async ({ page, browser }) => {
  test.setTimeout(120_000)
  const errors = watchErrors(page)
  const live = await submit('steady', 2_000, 8)
  await page.goto(`${service.url}/batches/${live}`)
  await expect(plotOf(page)).toBeVisible()
  await expectLive(page)
  const counts = page.getByText(/^n = [\d,]+ of 2,000 groups/)
  await expect(counts).not.toContainText(/n = 0 of|, \d\d? samples/)
  await page.evaluate(() => {
    const seen: Seen = { longMs: [], changes: 0, sinceMs: performance.now(), nowMs: 0 }
    Object.assign(window, { seen })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.longMs.push(Math.round(entry.duration))
    }).observe({ type: 'longtask' })
    const title = [...document.querySelectorAll('h2')].find(
      (each) => each.textContent === 'Group timeline',
    )
    let last = ''
    const look = () => {
      const now = title?.nextElementSibling?.textContent ?? ''
      if (now !== last) seen.changes++
      last = now
      seen.nowMs = performance.now()
      requestAnimationFrame(look)
    }
    look()
  })
  const seen = () => page.evaluate(() => (window as unknown as { seen: Seen }).seen)
  await browser.startTracing(page, { categories: ['toplevel'] })
  await expect
    .poll(async () => (await seen()).changes, { timeout: 60_000 })
    .toBeGreaterThanOrEqual(20)
  const trace = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: TraceEvent[]
  }
  const { longMs, changes, sinceMs, nowMs } = await seen()
  const perSecond = (changes * 1_000) / (nowMs - sinceMs)
  const cpuMs = mainThreadTasks(trace.traceEvents)
  const longest = Math.max(0, ...cpuMs)
  const note = `${perSecond.toFixed(1)} updates/s, longest task ${longest.toFixed(0)} ms of CPU, tasks over 50 ms of wall-clock time: ${longMs.join(', ') || 'none'}`
  console.info(note)
  test.info().annotations.push({ type: 'live', description: note })
  // The limit applies to CPU time, because wall-clock time grows when the machine is busy.
  expect(cpuMs.length).toBeGreaterThan(100)
  expect(longest).toBeLessThan(50)
  // On an idle machine the page draws 2.9 updates per second. On a busy machine it may draw fewer.
  expect(perSecond).toBeLessThanOrEqual(5)
  await service.api.batches.cancel.mutate({ batchId: live })
  await expect(page.locator('[data-page-header]').getByText('Cancelled')).toBeVisible()
  await expect(counts).toContainText('n = 2,000 of 2,000 groups, 16,000 samples')
  errors.expectNone()
})

interface Seen {
  longMs: number[]
  changes: number
  sinceMs: number
  nowMs: number
}

/** Times are in microseconds. */
interface TraceEvent {
  name: string
  ph: string
  pid: number
  tid: number
  tdur?: number
  args: { name?: string }
}

function mainThreadTasks(events: TraceEvent[]): number[] {
  const main = new Set(
    events
      .filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain')
      .map((e) => `${e.pid} ${e.tid}`),
  )
  return events
    .filter((e) => e.ph === 'X' && e.name.endsWith('RunTask') && main.has(`${e.pid} ${e.tid}`))
    .map((e) => (e.tdur ?? 0) / 1_000)
}
