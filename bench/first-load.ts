import { rm } from 'node:fs/promises'
import type { Browser } from '@playwright/test'
import { seedData } from '../scripts/seed-data.ts'
import { createLogger } from '../server/log.ts'
import { freePort } from '../testkit/processes/port.ts'
import { startService } from '../testkit/processes/service.ts'
import { launchBrowser } from './browser.ts'
import { benchFolder, type Emit } from './harness.ts'
import { median, rounded } from './statistics.ts'

const REPETITIONS = 7
/** CPU throttling that makes the measuring machine about as slow as a laptop. */
const CPU_SLOWDOWN = 4
const SAMPLES = 100_000
/** A page counts as loaded when its largest contentful paint has not changed for this long. */
const QUIET_MS = 1_500
/** Time allowed for a new browser window to open. According to a trace, a window takes about one second. */
const WINDOW_MS = 3_000

export async function measureFirstLoad(emit: Emit): Promise<void> {
  const folder = await benchFolder()
  const log = createLogger('warn', 'bench')
  let service: Awaited<ReturnType<typeof startService>> | undefined
  const browser = await launchBrowser()
  try {
    await seedData({ dataDir: folder, samples: SAMPLES, seed: 1, log })
    service = await startService({
      port: await freePort(),
      dataDir: folder,
      env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined },
    })
    // The first request after a start compiles the code it uses.
    await loadOnce(browser, service.url)
    const loads: Load[] = []
    for (let i = 0; i < REPETITIONS; i++) loads.push(await loadOnce(browser, service.url))
    const each = (of: (load: Load) => number) => loads.map(of)
    emit({
      name: 'first_load',
      cpuSlowdown: CPU_SLOWDOWN,
      scriptKib: rounded(Math.max(...each((l) => l.script.bytes)) / 1024, 1),
      scripts: loads[0]?.script.files,
      scriptsPlain: loads[0]?.script.plain,
      allKib: rounded(Math.max(...each((l) => l.bytes)) / 1024, 1),
      lcpMs: rounded(median(each((l) => l.lcpMs))),
      lcpWorstMs: rounded(Math.max(...each((l) => l.lcpMs))),
      lcpRunsMs: each((l) => rounded(l.lcpMs)),
      lcpElement: loads.at(-1)?.lcpElement,
    })
  } finally {
    await browser.close()
    await service?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

interface Load {
  /** Scripts: number of files, transferred bytes with headers, and number of uncompressed files. */
  script: { files: number; bytes: number; plain: number }
  bytes: number
  lcpMs: number
  lcpElement: string
}

async function loadOnce(browser: Browser, url: string): Promise<Load> {
  // A new context has an empty cache.
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  try {
    const page = await context.newPage()
    // A new context opens a browser window, whose own interface loads over a hundred scripts on the same cores. The
    // wait keeps this load out of the measurement, because users already have a window open.
    await page.waitForTimeout(WINDOW_MS)
    const devtools = await context.newCDPSession(page)
    await devtools.send('Network.enable')
    await devtools.send('Emulation.setCPUThrottlingRate', { rate: CPU_SLOWDOWN })
    const kinds = new Map<string, { script: boolean; plain: boolean }>()
    const script = { files: 0, bytes: 0, plain: 0 }
    let bytes = 0
    devtools.on('Network.responseReceived', ({ requestId, type, response }) => {
      const encoding = response.headers['content-encoding'] ?? response.headers['Content-Encoding']
      kinds.set(requestId, { script: type === 'Script', plain: encoding === undefined })
    })
    devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      bytes += encodedDataLength
      const kind = kinds.get(requestId)
      if (!kind?.script) return
      script.files++
      script.bytes += encodedDataLength
      if (kind.plain) script.plain++
    })
    await page.addInitScript(() => {
      const painted = { at: 0, element: '', seenAt: 0 }
      Object.assign(window, { painted })
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          const { element } = entry as PerformanceEntry & { element: Element | null }
          painted.at = entry.startTime
          painted.element = `${element?.tagName.toLowerCase()} ${element?.textContent?.slice(0, 40)}`
          painted.seenAt = performance.now()
        }
      }).observe({ type: 'largest-contentful-paint', buffered: true })
    })
    await page.goto(url, { waitUntil: 'load' })
    const painted = await page.waitForFunction(
      (quietMs) => {
        const { painted } = window as unknown as {
          painted: { at: number; element: string; seenAt: number }
        }
        return painted.at > 0 && performance.now() - painted.seenAt > quietMs ? painted : null
      },
      QUIET_MS,
      { polling: 100 },
    )
    const { at, element } = (await painted.jsonValue()) as { at: number; element: string }
    return { script, bytes, lcpMs: at, lcpElement: element }
  } finally {
    await context.close()
  }
}
