import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chromium, type Page } from '@playwright/test'
import { createTRPCClient, httpLink } from '@trpc/client'
import type { AppRouter } from '../server/api/root.ts'
import { createLogger } from '../server/log.ts'
import { freePort } from '../testkit/processes/port.ts'
import { startService } from '../testkit/processes/service.ts'
import { startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { findChromium } from './chromium.mjs'
import { seedData } from './seed-data.ts'

const { values, positionals: only } = parseArgs({
  allowPositionals: true,
  options: {
    samples: { type: 'string', default: '400000' },
    out: { type: 'string', default: join(import.meta.dirname, '../docs/screenshots') },
    width: { type: 'string', default: '1280' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(`node scripts/screenshots.ts [page …] [--samples N] [--out FOLDER] [--width 390]

Takes the screenshots of docs/screenshots, light and dark. The temporary service has generated runs, two simulated
reward-model servers and a batch that is being scored. Pages that do not exist are left out.`)
  process.exit(0)
}

/** Latency of the simulated servers, in ms, long enough that a batch is still being scored during its screenshots. */
const DELAY = 'uniform:200,9000'
const MODEL_RUN = 'seeded-reward-model'

interface Pictured {
  name: string
  path: string
  /** Wait before the light screenshot, in ms. */
  waitMs?: number
  prepare?(page: Page): Promise<void>
}

const folder = await mkdtemp(join(tmpdir(), 'rewardops-screenshots-'))
await chmod(folder, 0o711)
const log = createLogger('warn', 'screenshots')
const seeded = await seedData({
  ...{ dataDir: folder, samples: Number(values.samples), seed: 1, log },
})
console.log(`${seeded.samples.toLocaleString('en')} samples created in ${seeded.seconds} s`)
const rmServer = await startSimulatedServers([
  ...['--servers', '2', '--score', 'features', '--latency', DELAY],
])
const service = await startService({
  port: await freePort(),
  dataDir: folder,
  env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined },
})
const api = createTRPCClient<AppRouter>({ links: [httpLink({ url: `${service.url}/api/trpc` })] })
const browser = await chromium.launch({
  ...(findChromium() === undefined ? {} : { executablePath: findChromium() as string }),
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
})
try {
  await mkdir(values.out, { recursive: true })
  let total = 0
  for (const page of await pages()) {
    if (only.length > 0 && !only.includes(page.name)) continue
    for (const look of ['light', 'dark'] as const) total += await picture(page, look)
  }
  console.log(`${(total / 1e6).toFixed(2)} MB in all`)
} finally {
  await browser.close()
  await service.stop()
  await rmServer.stop()
  await rm(folder, { recursive: true, force: true })
}

async function pages(): Promise<Pictured[]> {
  for (const [i, url] of rmServer.urls.entries())
    await api.servers.register.mutate({ name: `rm-${'ab'[i]}`, url, maxInFlight: 48 })
  const samples = Array.from({ length: 2_048 }, (_, i) => ({
    uid: `prompt-${i >> 3}`,
    dataSource: i % 3 === 0 ? 'ultrafeedback' : 'helpsteer',
    prompt: `Explain step ${i >> 3} of the proof to a student.`,
    response: `${'Consider what we know. '.repeat(1 + ((i * 7919) % 23))}So it follows, case ${i}.`,
    responseLength: 40 + ((i * 7919) % 400),
  }))
  const { batchId } = await api.batches.submit.mutate({
    ...{ run: 'helpful-7b', step: 214, groupSize: 8, samples },
    reward: { model: rmServer.model },
  })
  const newest = await api.batches.list.query({ run: MODEL_RUN, limit: 8 })
  const whole = newest.items.filter(({ split }) => split === 'train')
  const last = whole[0]?.batchId as string
  const [ruled] = (await api.batches.list.query({ run: 'seeded-math-rule', limit: 1 })).items
  const { batchId: rescored } = await api.batches.rescore.mutate({
    batchId: ruled?.batchId as string,
    reward: { function: { name: 'math_verify' } },
  })
  await api.batches.wait.query({ batchId: rescored, waitMs: 60_000 })
  // The pages that show the batch while it is being scored come first.
  return [
    { name: 'batch', path: `/batches/${batchId}`, waitMs: 9_000 },
    { name: 'overview', path: '/' },
    { name: 'servers', path: '/servers' },
    { name: 'server', path: '/servers/rm-a' },
    { name: 'workers', path: '/workers' },
    { name: 'runs', path: '/runs' },
    { name: 'run', path: '/runs/seeded-rule-and-model?over=seeded-math-rule' },
    { name: 'prompts', path: '/runs/seeded-math-rule/prompts' },
    { name: 'prompts-heat', path: '/runs/seeded-math-rule/prompts?view=heat' },
    { name: 'batches', path: '/batches' },
    { name: 'batch-ended', path: `/batches/${last}` },
    { name: 'samples', path: `/samples?run=${MODEL_RUN}&sort=worst&sample=${last}-3` },
    { name: 'rewards', path: '/rewards' },
    {
      name: 'rewards-try',
      path: '/rewards?view=try',
      prepare: async (page) => {
        await page.getByRole('button', { name: 'DAPO, overlong' }).click()
        await page.getByRole('button', { name: 'Score sample' }).click()
        await page.getByRole('button', { name: 'Copy as JSON' }).waitFor()
      },
    },
    { name: 'planner', path: '/planner' },
    { name: 'compare', path: `/compare?a=${ruled?.batchId}&b=${rescored}` },
    {
      name: 'compare-runs',
      path: '/compare?run=seeded-math-rule&run=seeded-rule-and-model&run=seeded-judge',
    },
    { name: 'monitors', path: '/monitors' },
    { name: 'settings', path: '/settings' },
  ]
}

async function picture(
  { name, path, waitMs = 2_500, prepare }: Pictured,
  look: 'light' | 'dark',
): Promise<number> {
  const page = await browser.newPage({
    viewport: { width: Number(values.width), height: 800 },
    colorScheme: look,
  })
  // On a busy machine, the first requests are slow.
  page.setDefaultTimeout(120_000)
  try {
    const answer = await page.goto(service.url + path)
    if (answer?.status() === 404) {
      console.log(`${name}: there is no such page`)
      return 0
    }
    await prepare?.(page)
    await page.locator('[data-live="live"]').first().waitFor()
    // Wait for the page's data and plots. Charts below the picture stay skeletons until they are scrolled into view.
    await page.waitForFunction(() =>
      Array.from(document.querySelectorAll('#page .skeleton')).every(
        (skeleton) => skeleton.getBoundingClientRect().top >= innerHeight,
      ),
    )
    await page.waitForTimeout(look === 'light' ? waitMs : 2_500)
    const png = await page.screenshot({ path: join(values.out, `${name}-${look}.png`) })
    console.log(`${name}-${look}.png, ${Math.round(png.length / 1024)} KiB`)
    return png.length
  } finally {
    await page.close()
  }
}
