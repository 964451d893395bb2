import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser, Page } from '@playwright/test'
import { launchBrowser } from './browser.ts'
import { type Bench, type Emit, submitBody, waitForEnd, withBench } from './harness.ts'
import { median, rounded } from './statistics.ts'
import { type TaskTime, taskTimes } from './task-times.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

/** Concurrency and latency of the reward model, which limit a batch to 640 samples per second. */
const IN_FLIGHT = 64
const DELAY = 'uniform:50,150'
const SAMPLES_PER_SECOND = 640
/** Minimum duration of a long task, as browsers define it. */
const LONG_TASK_MS = 50
/** The page counts as opening until its first figures have been visible for this long. */
const SETTLED_MS = 2_000

export interface WatchOptions {
  /** Approximate scoring time of a batch. */
  seconds: number
  /** Number of batches with the page open. The same number of batches with a blank page alternate with them. */
  repetitions: number
}

export const WATCH_DEFAULTS: WatchOptions = { seconds: 30, repetitions: 5 }

/** Measures how viewing a batch slows its scoring, how often its page updates, and whether the page freezes. */
export async function measureWatch(emit: Emit, options: WatchOptions): Promise<void> {
  const { seconds, repetitions } = options
  const groups = Math.ceil((seconds * SAMPLES_PER_SECOND) / 8)
  await withBench({ rmArgs: ['--latency', DELAY], maxInFlight: IN_FLIGHT }, async (bench) => {
    const browser = await launchBrowser()
    try {
      const blank: Run[] = []
      const watched: Run[] = []
      // The first run is a warm-up and does not count.
      await runOnce(bench, browser, Math.min(groups, 320), 0, true)
      // Tracing slows the page, so the traced batch is not part of the rates.
      const { traced } = await runOnce(bench, browser, groups, repetitions + 1, true, true)
      for (let i = 1; i <= repetitions; i++) {
        // The order alternates, so that a slow minute of the machine affects both.
        for (const open of i % 2 === 0 ? [true, false] : [false, true])
          (open ? watched : blank).push(await runOnce(bench, browser, groups, i, open))
      }
      const blankRate = median(blank.map((run) => run.perSecond))
      const watchedRate = median(watched.map((run) => run.perSecond))
      const seen = watched.map((run) => run.seen as Seen)
      emit({
        name: 'watch',
        samples: groups * 8,
        groups,
        batchSeconds: rounded(median(watched.map((run) => run.seconds)), 1),
        blankPerSecond: rounded(blankRate),
        watchedPerSecond: rounded(watchedRate),
        fallPercent: rounded((1 - watchedRate / blankRate) * 100, 1),
        updatesPerSecond: rounded(median(seen.map((one) => one.updatesPerSecond)), 2),
        updatesPerSecondRuns: seen.map((one) => rounded(one.updatesPerSecond, 2)),
        // Duration of the longest task of 50 ms or more, or null if there is none.
        longestTaskMs: seen.reduce<number | null>(
          (most, { tasks }) => tasks.reduce<number | null>((a, b) => Math.max(a ?? 0, b), most),
          null,
        ),
        longTasks: seen.reduce((n, { tasks }) => n + tasks.length, 0),
        longestTaskCpuMs: rounded(traced[0]?.cpuMs ?? 0),
        longTasksByCpu: traced.filter(({ cpuMs }) => cpuMs >= LONG_TASK_MS).length,
        longestTaskWhileOpeningMs: Math.max(0, ...seen.flatMap(({ opening }) => opening)),
        blankRuns: blank.map((run) => rounded(run.perSecond)),
        watchedRuns: watched.map((run) => rounded(run.perSecond)),
      })
    } finally {
      await browser.close()
    }
  })
}

interface Run {
  perSecond: number
  seconds: number
  /** Null if the browser showed a blank page. */
  seen: Seen | null
  /** Main-thread tasks of the traced batch after the page had finished opening, longest CPU time first. */
  traced: TaskTime[]
}

interface Seen {
  /** How many times per second the displayed number of finished samples changed. */
  updatesPerSecond: number
  /** Durations of tasks of 50 ms or more after the page had finished opening, ms. */
  tasks: number[]
  /** Durations of tasks of 50 ms or more while the page was opening, ms. */
  opening: number[]
}

async function runOnce(
  bench: Bench,
  browser: Browser,
  groups: number,
  step: number,
  open: boolean,
  trace = false,
): Promise<Run> {
  const samples = makeSamples({ ...USUAL_SHAPE, samples: groups * USUAL_SHAPE.groupSize }, step)
  const body = submitBody(step * 2 + (open ? 1 : 0), samples, { model: bench.rm.model })
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  try {
    const page = await context.newPage()
    const { batchId } = await bench.submit(body)
    if (open) await openPage(page, `${bench.service.url}/batches/${batchId}`)
    else await page.goto('about:blank')
    const ended = waitForEnd(bench, batchId)
    let traced: TaskTime[] = []
    if (trace) {
      await sleep(SETTLED_MS)
      traced = await taskTimes(browser, page, async () => void (await ended))
    }
    const { submittedAt, completedAt, samples: n } = await ended
    // Waits for the last update to reach the page.
    if (open) await sleep(1_000)
    const tookMs = Date.parse(completedAt as string) - Date.parse(submittedAt)
    return {
      perSecond: (n / tookMs) * 1_000,
      seconds: tookMs / 1_000,
      seen: open ? await whatWasSeen(page) : null,
      traced,
    }
  } finally {
    await context.close()
  }
}

async function openPage(page: Page, url: string): Promise<void> {
  await page.addInitScript(() => {
    const seen = { tasks: [] as [at: number, ms: number][], changes: [] as number[], figuresAt: 0 }
    Object.assign(window, { seen })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.tasks.push([entry.startTime, entry.duration])
    }).observe({ type: 'longtask', buffered: true })
    let last = ''
    const look = () => {
      const figure = document.querySelector('[aria-label="Batch figures"] dd .num')
      const text = figure?.textContent ?? ''
      if (text === last || text === '') return
      if (last === '') seen.figuresAt = performance.now()
      last = text
      seen.changes.push(performance.now())
    }
    new MutationObserver(look).observe(document, {
      ...{ subtree: true, childList: true, characterData: true },
    })
  })
  await page.goto(url)
  await page.getByLabel('Batch figures').waitFor()
}

async function whatWasSeen(page: Page): Promise<Seen> {
  const { tasks, changes, figuresAt } = await page.evaluate(
    () =>
      (
        window as unknown as {
          seen: { tasks: [at: number, ms: number][]; changes: number[]; figuresAt: number }
        }
      ).seen,
  )
  const from = figuresAt + SETTLED_MS
  const moved = changes.filter((at) => at >= from)
  const spanMs = (moved.at(-1) ?? 0) - (moved[0] ?? 0)
  return {
    updatesPerSecond: spanMs > 0 ? ((moved.length - 1) / spanMs) * 1_000 : 0,
    tasks: tasks.filter(([at]) => at >= from).map(([, ms]) => ms),
    opening: tasks.filter(([at]) => at < from).map(([, ms]) => ms),
  }
}
