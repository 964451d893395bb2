import { expect, type Page } from '@playwright/test'
import { seedData } from '../scripts/seed-data.ts'
import { insertServer } from '../server/cluster/testing/servers.ts'
import { createLogger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { SEEDED_RUNS } from '../server/store/seeded/seeded-run.ts'
import { section } from './exactness/read-page.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

// `npx playwright test charts --update-snapshots` updates the snapshots; review them before committing.

const STEPS = 12
const STEP_SAMPLES = 192
/** The data end at midnight, so that the labels of time axes are the same on every day. */
const MIDNIGHT = Math.floor(Date.now() / 86_400_000) * 86_400_000
/**
 * A pixel counts as different if its color distance exceeds 10 % of the largest possible one, and a snapshot fails if
 * more than 0.3 % of its pixels are different. Measured on 26 snapshots, moving lines and areas by 2 px or removing a
 * bar changes 0.46 to 3.6 % of the pixels. Different font hinting and text spacing change less than 0.3 % in 24
 * snapshots, and 0.54 % where a heading wraps.
 */
const TOLERANCE = { threshold: 0.1, maxDiffPixelRatio: 0.003 }

let service: TestService
test.beforeAll(async () => {
  test.setTimeout(120_000)
  service = await startTestService({ REWARDOPS_WORKERS: '0' })
  const log = createLogger('warn', 'charts')
  await seedData({
    ...{ dataDir: service.dataDir, log, seed: 7, nowMs: MIDNIGHT },
    samples: SEEDED_RUNS.length * STEPS * STEP_SAMPLES,
    stepSamples: STEP_SAMPLES,
  })
  await addServer()
})
test.afterAll(() => service?.stop())

async function addServer(): Promise<void> {
  const log = createLogger('warn', 'charts')
  const url = runningEmbeddedUrl(service.dataDir) as string
  const db = new Database(url, log, { max: 1, name: 'charts' })
  try {
    const id = await insertServer(db, {
      ...{ name: 'chart-rm', model: 'chart-rm', state: 'draining' },
      state_since: new Date(MIDNIGHT - 3_600_000).toISOString(),
    })
    await db.adhoc(
      `insert into server_minute (server_id, minute, requests, errors, retries, hedges, busy, latency_ms)
       select $1, to_timestamp($2 / 1000.0) + i * interval '1 minute', 120 + (i * 37) % 60, (i % 9 = 4)::int * 14,
         (i % 9 = 5)::int * 12, i % 4, (i % 9 = 4)::int * 6,
         array_fill(0, array[40 + i / 4]) || array[60 + i % 20, 40, 15, 4] || array_fill(0, array[6]) || array[1 + i % 3]
           || array_fill(0, array[45 - i / 4])
       from generate_series(0, 59) i where i not between 22 and 27`,
      [id, MIDNIGHT - 3_600_000],
    )
  } finally {
    await db.close()
  }
}

interface Pictured {
  name: string
  path: string
  charts: Record<string, string>
  prepare?(page: Page): Promise<void>
}

/**
 * Returns the id of a run's last batch. The seeder creates step 1 of all runs, then step 2 of all runs, and so on.
 * @param run counts from 1
 */
const lastBatch = (run: number) => `b${(STEPS - 1) * SEEDED_RUNS.length + run}`

const VIEWS: Pictured[] = [
  {
    name: 'batch of a reward model',
    path: `/batches/${lastBatch(2)}`,
    charts: {
      'Group timeline': 'batch-timeline',
      Rewards: 'batch-histogram',
      'Completed groups over time': 'batch-completion',
    },
  },
  {
    name: 'run of a composite reward',
    path: '/runs/seeded-rule-and-model?over=seeded-math-rule',
    charts: {
      Reward: 'run-fan',
      'Reward distribution': 'run-spread-bins',
      'Reward wait': 'run-waits',
      Contributions: 'run-contributions',
      style: 'run-component',
    },
  },
  {
    name: 'batch of verdicts',
    path: `/batches/${lastBatch(1)}`,
    charts: { Rewards: 'batch-bars-log', 'Group signal': 'batch-signals' },
    prepare: (page) => page.getByRole('button', { name: 'Log', exact: true }).click(),
  },
  {
    name: 'run of verdicts',
    path: '/runs/seeded-math-rule',
    charts: {
      Reward: 'run-interval',
      Outcomes: 'run-outcomes',
      'No-signal groups': 'run-signals',
    },
  },
  {
    name: 'run of a judge',
    path: '/runs/seeded-judge',
    charts: {
      'Reward distribution': 'run-spread-values',
      'Failed samples': 'run-failures',
      mt_bench: 'run-source',
    },
  },
  {
    name: 'two batches of the same prompts',
    path: `/compare?a=${lastBatch(1)}&b=${lastBatch(3)}`,
    charts: {
      'Cumulative score distribution': 'compare-shares',
      'Difference, second − first': 'compare-difference',
    },
  },
  {
    name: 'server',
    path: '/servers/chart-rm',
    charts: { Latency: 'server-latency', 'Requests per minute': 'server-calls' },
  },
  {
    name: 'overlaid runs',
    path: '/compare?run=seeded-math-rule&run=seeded-rule-and-model&band=middle',
    charts: {
      'Mean reward': 'compare-runs-mean',
      'seeded-rule-and-model − seeded-math-rule': 'compare-runs-difference',
    },
  },
]

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, timezoneId: 'UTC', viewport: { width: 1040, height: 900 } })
    test.skip(process.platform !== 'linux', 'the snapshots show the fonts of Linux')
    for (const { name, path, charts, prepare } of VIEWS) {
      test(name, async ({ page }) => {
        await page.emulateMedia({ reducedMotion: 'reduce', colorScheme })
        // Server charts end at the current time, so the clock of the page is fixed.
        if (name === 'server') await page.clock.setFixedTime(MIDNIGHT)
        await page.goto(service.url + path)
        await prepare?.(page)
        // The pointer would show a tooltip.
        await page.mouse.move(0, 0)
        for (const [title, picture] of Object.entries(charts)) {
          const chart = section(page, title)
          // The plot is loaded after the page and replaces the skeleton.
          await expect(chart.locator('canvas, svg.recharts-surface, ul').last()).toBeVisible()
          await expect.soft(chart).toHaveScreenshot(`${picture}-${colorScheme}.png`, TOLERANCE)
        }
      })
    }
  })
}
