import type { CDPSession } from '@playwright/test'
import { expect } from '@playwright/test'
import { watchErrors } from './fixtures/look.ts'
import { type TestService, test } from './fixtures/service.ts'

/**
 * Measures the main-thread time of opening a response of 100 kB, from the click on its row until the first chunk is
 * rendered and the page is idle.
 */

let service: TestService

test.beforeAll(({ sharedService }) => {
  service = sharedService
})

function long(part: (i: number) => string): string {
  let text = ''
  for (let i = 0; text.length < 100_000; i++) text += part(i)
  return `${text}\n\n#### 42`
}

const PROSE =
  'The train leaves at nine, and the other one half an hour later, so they meet where the road crosses the river.'
const prose = long((i) => `Paragraph ${i}. ${PROSE} ${PROSE} ${PROSE}\n\n`)
const line = long((i) => `${i} ${PROSE} `)
const math = long(
  (i) =>
    `Step ${i}: since $x_{${i}}^2 = \\frac{${i}}{${i + 1}}$, we have\n\n\\[ \\sum_{k=1}^{${i}} \\binom{${i}}{k} x^k = (1 + x)^{${i}} - 1 \\]\n\nand therefore $$\\int_0^{${i}} e^{-t^2}\\,dt < \\sqrt{\\pi}.$$\n\n`,
)
const code = long(
  (i) =>
    `Then the function ${i}:\n\n\`\`\`python\ndef solve_${i}(items: list[int]) -> int:\n    """Adds the items."""\n    total = ${i}\n    for at, item in enumerate(items):\n        if item % 2 == 0:\n            total += item * at  # even\n    return total\n\`\`\`\n\n`,
)
const oneBlock = `\`\`\`python\n${long((i) => `def f${i}(x):\n    return x + ${i}  # ${PROSE}\n`).replace(/\n\n#### 42$/, '')}\`\`\`\n\n#### 42`
const table = long((i) => (i === 0 ? '| n | value |\n|---|---|\n' : `| ${i} | $${i}^2$ |\n`))
const list = long((i) => `- item ${i} with **bold** and \`code\`\n`)
const think = `<think>\n${prose}\n</think>\n\n${math.slice(0, 4_000)}\n\n#### 42`
const openThink = `<think>\n${math}`

const RESPONSES = { prose, line, math, code, oneBlock, table, list, think, openThink }

/** CPU time that the page's main thread has used, except for this test's commands, ms. */
async function threadMs(session: CDPSession): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics')
  const of = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? 0
  return (of('TaskDuration') - of('DevToolsCommandDuration')) * 1_000
}

async function rest(session: CDPSession): Promise<number> {
  let ms = Number.NEGATIVE_INFINITY
  await expect
    .poll(
      async () => {
        const before = ms
        ms = await threadMs(session)
        return ms - before
      },
      { intervals: [700], timeout: 30_000 },
    )
    .toBeLessThan(10)
  return ms
}

test('a response of 100 kB opens without blocking the page', async ({ page }) => {
  test.setTimeout(300_000)
  const errors = watchErrors(page)
  await page.setViewportSize({ width: 1440, height: 900 })
  const short = 'Six times seven is 42.\n#### 42'
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'long-responses', step: 1, reward: { function: { name: 'gsm8k' } } },
    samples: [short, ...Object.values(RESPONSES), short].map((response) => ({
      ...{ uid: 'q', dataSource: 'openai/gsm8k', prompt: '6 * 7?', response, groundTruth: '42' },
    })),
  } as never)
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  await page.addInitScript(() => {
    const longMs: number[] = []
    Object.assign(window, { longMs })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) longMs.push(Math.round(entry.duration))
    }).observe({ type: 'longtask' })
  })
  const open = async (i: number) => {
    await page.goto(`${service.url}/samples?batch=${batchId}`)
    const row = page.locator(`[data-sample="${batchId}-${i}"]`)
    await expect(row).toBeVisible()
    const before = await rest(session)
    // A timer in the page clicks the row. Playwright's own click would inspect the whole page.
    await row.evaluate((element: HTMLElement) => {
      ;(window as unknown as { longMs: number[] }).longMs.splice(0)
      setTimeout(() => element.click())
    })
    await page.waitForFunction(
      (id) =>
        document.querySelector(
          `[data-panel="${id}"] [data-rendered="true"], [data-panel="${id}"] [data-think]`,
        ) !== null,
      `${batchId}-${i}`,
      { polling: 100 },
    )
    const spent = (await rest(session)) - before
    const longMs = await page.evaluate(() => (window as unknown as { longMs: number[] }).longMs)
    const panel = page.locator(`[data-panel="${batchId}-${i}"]`)
    const pieces = await panel.locator('[data-rendered="true"]').count()
    const formulas = await panel.locator('.katex').count()
    return { spent, longMs, pieces, formulas }
  }
  // The first opening loads the scripts of the panel and of the renderer.
  await open(0)
  const calibration = (await open(0)).spent
  const lines = [`short response: ${calibration.toFixed(0)} ms`]
  const spentOf = new Map<string, number>()
  for (const [at, name] of Object.keys(RESPONSES).entries()) {
    const { spent, longMs, pieces, formulas } = await open(at + 1)
    spentOf.set(name, spent)
    expect.soft(pieces, name).toBeLessThan(6)
    lines.push(
      `${name}: ${spent.toFixed(0)} ms, ${pieces} pieces, ${formulas} formulas, long tasks ${longMs.join(', ') || 'none'}`,
    )
  }
  console.info(lines.join('\n'))
  // On a busy machine, the slowest response, a table with 200 formulas, took five times as long as a short response.
  for (const [name, spent] of spentOf) expect.soft(spent, name).toBeLessThan(10 * calibration)
  errors.expectNone()
})
