import { type Browser, chromium } from '@playwright/test'
import { findChromium } from '../scripts/chromium.mjs'
import { type Emit, submitBody, withBench } from './harness.ts'
import { median, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

const REPETITIONS = 7
const CPU_SLOWDOWN = 4

/** What a page costs somebody who opens it first. */
export interface FirstLoad {
  /** Bytes over the wire, heads included, of scripts and of everything. */
  scriptBytes: number
  allBytes: number
  requests: number
  /** Largest contentful paint, from navigation. */
  lcpMs: number
  /** What was painted then: the element's tag and the start of its text. */
  lcpOf: string
}

/** The first load of the overview with an empty cache, with a batch behind it, at a quarter of the CPU's speed. */
export async function measureFirstLoad(emit: Emit): Promise<void> {
  await withBench({}, async (bench) => {
    const { batchId } = await bench.call<{ batchId: string }>(
      'batches.submit',
      submitBody(0, makeSamples(USUAL_SHAPE, 0), { model: bench.rm.model }),
    )
    await bench.call('batches.wait', JSON.stringify({ batchId, waitMs: 60_000 }))
    const browser = await chromium.launch({
      executablePath: findChromium(),
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    })
    try {
      const loads: FirstLoad[] = []
      for (let i = 0; i < REPETITIONS; i++) {
        loads.push(await firstLoad(browser, `${bench.service.url}/`, CPU_SLOWDOWN))
      }
      emit({
        name: 'first_load',
        page: '/',
        cpuSlowdown: CPU_SLOWDOWN,
        loads: loads.length,
        scriptKilobytes: rounded(median(loads.map((load) => load.scriptBytes)) / 1_000, 1),
        allKilobytes: rounded(median(loads.map((load) => load.allBytes)) / 1_000, 1),
        requests: median(loads.map((load) => load.requests)),
        lcpP50Ms: rounded(median(loads.map((load) => load.lcpMs))),
        lcpMaxMs: rounded(Math.max(...loads.map((load) => load.lcpMs))),
        lcpOf: loads.at(-1)?.lcpOf,
        lcpRunsMs: loads.map((load) => rounded(load.lcpMs)),
      })
    } finally {
      await browser.close()
    }
  })
}

/** Opens an address in a browser context of its own, so with nothing kept, and waits until its paints are known. */
export async function firstLoad(
  browser: Browser,
  url: string,
  cpuSlowdown: number,
): Promise<FirstLoad> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  try {
    const page = await context.newPage()
    const devtools = await context.newCDPSession(page)
    await devtools.send('Network.enable')
    await devtools.send('Emulation.setCPUThrottlingRate', { rate: cpuSlowdown })
    const types = new Map<string, string>()
    let scriptBytes = 0
    let allBytes = 0
    devtools.on('Network.responseReceived', ({ requestId, type }) => types.set(requestId, type))
    devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      allBytes += encodedDataLength
      if (types.get(requestId) === 'Script') scriptBytes += encodedDataLength
    })
    await page.goto(url)
    await page.getByRole('heading', { name: 'Recent batches' }).waitFor()
    // Larger paints and what is loaded late may still come: until a second has passed without a request.
    await page.waitForLoadState('load')
    let seen = -1
    while (seen !== types.size) {
      seen = types.size
      await page.waitForTimeout(1_000)
    }
    const { lcpMs, lcpOf } = await page.evaluate(
      () =>
        new Promise<{ lcpMs: number; lcpOf: string }>((resolve) => {
          new PerformanceObserver((list) => {
            const last = list.getEntries().at(-1) as unknown as {
              startTime: number
              element: Element | null
            }
            const text = last.element?.textContent?.trim().slice(0, 40) ?? ''
            resolve({ lcpMs: last.startTime, lcpOf: `${last.element?.tagName} ${text}` })
          }).observe({ type: 'largest-contentful-paint', buffered: true })
        }),
    )
    return { scriptBytes, allBytes, requests: types.size, lcpMs, lcpOf }
  } finally {
    await context.close()
  }
}
