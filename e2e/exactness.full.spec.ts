import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, type Page } from '@playwright/test'
import { countsOf, noSignalText, SIGNAL_LABEL } from '../components/batches/group-signal-text.ts'
import { FEW_VALUES } from '../components/charts/run.prepare.ts'
import {
  durationText,
  formatCompact,
  formatCount,
  formatRate,
  formatScore,
  percentText,
  plural,
} from '../components/format/numbers.ts'
import { shortenMiddle } from '../components/format/text.ts'
import { EXPORTED_RESULT_COLUMNS, EXPORTED_ROLLOUT_COLUMNS } from '../server/contract/csv-cells.ts'
import { EXPORTED_TEXT_COLUMNS } from '../server/contract/export.ts'
import type { RewardSpec, SubmitInput } from '../server/contract/trainer.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { hasGradedProblems } from '../testkit/service/rollouts.ts'
import {
  type BatchNumbers,
  differences,
  type Facts,
  havePython,
  type Numbers,
  type RunNumbers,
  recompute,
} from './exactness/numbers.ts'
import { bare, chartRows, figuresOf, noteOf, rowsOf, section } from './exactness/read-page.ts'
import { type Rollout, readRollouts, withBroken } from './exactness/rollouts.ts'
import { startTestService, type TestService, test } from './fixtures/service.ts'

/**
 * Compares the numbers of the batch and run pages with those that `recompute.py` computes from the exported samples. The
 * script shares no code with the service.
 */

const missing = !hasGradedProblems
  ? 'the rollouts of gsm8k-groups8 are missing'
  : havePython()
    ? null
    : 'there is no python3'
test.skip(missing !== null, missing ?? '')
test.describe.configure({ mode: 'serial' })

const RULE: Partial<RewardSpec> = { function: { name: 'gsm8k' } as RewardSpec['function'] }
const BROKEN_EVERY = 37
const COLUMNS = [...EXPORTED_ROLLOUT_COLUMNS, ...EXPORTED_RESULT_COLUMNS].filter(
  (column) => !EXPORTED_TEXT_COLUMNS.includes(column),
)

let service: TestService
let rms: SimulatedServers[] = []
let folder = ''
let numbers: Numbers
const facts: Record<string, Facts> = {}
const batches: Record<string, string> = {}

test.beforeAll(async () => {
  if (missing !== null) return
  test.setTimeout(180_000)
  folder = mkdtempSync(join(tmpdir(), 'rewardops-exactness-'))
  service = await startTestService()
  // Two servers return NaN for the same texts, and one is often busy, so that samples fail and are retried.
  const nan = ['--draw-by', 'text', '--faults', '{"nan":0.04}']
  const busy = ['--faults', '{"full503":0.1}']
  const usual = ['--latency', 'uniform:1,60', '--slow-share', '0.01', '--slow-ms']
  rms = await Promise.all(
    [nan, nan, busy].map((faults) => startSimulatedServers([...usual, '700', ...faults])),
  )
  for (const [at, rm] of rms.entries()) {
    await service.api.servers.register.mutate({ name: `rm-${at + 1}`, url: rm.url, engine: 'vllm' })
  }
  const model = rms[0]?.model as string
  const rollouts = readRollouts()
  const broken = withBroken(rollouts, BROKEN_EVERY)
  const strict = { ...RULE, kwargs: { method: 'strict' } }
  const flexible = { ...RULE, kwargs: { method: 'flexible' } }
  const submits: [name: string, run: string, reward: object, samples: Rollout[], of?: Facts][] = [
    ['replaced', 'exact', flexible, rollouts.slice(0, 16)],
    ['strict', 'exact', strict, rollouts],
    ['flexible', 'exact', flexible, rollouts],
    ['failing', 'exact', strict, broken],
    ['constant', 'exact', { ...strict, onFailure: { policy: 'constant', value: -0.5 } }, broken],
    ['group_mean', 'exact', { ...strict, onFailure: { policy: 'group_mean' } }, broken],
    ['drop_group', 'exact', { ...strict, onFailure: { policy: 'drop_group' } }, broken],
    ['few', 'exact', { ...strict, advantages: { normByStd: false } }, rollouts.slice(0, 41)],
    ['model', 'exact-models', { model, maxAttempts: 2 }, rollouts.slice(0, 800)],
    [
      'model again',
      'exact-models',
      { model, maxAttempts: 3, onFailure: { policy: 'group_mean' } },
      rollouts.slice(800),
    ],
    [
      'components',
      'exact-components',
      {
        combine: [
          { name: 'strict', reward: strict },
          { name: 'lenient', weight: 0.25, reward: flexible },
          { name: 'rm', weight: 0.1, reward: { model, maxAttempts: 2 } },
        ],
      },
      rollouts.slice(0, 400),
    ],
  ]
  const steps = new Map<string, number>()
  for (const [name, run, reward, samples] of submits) {
    const step = (steps.get(run) ?? 0) + 1
    // The first step is submitted twice. The run page shows the later batch.
    steps.set(run, name === 'replaced' ? step - 1 : step)
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run, step, groupSize: name === 'few' ? null : 8, samples },
      reward: reward as SubmitInput['reward'],
    })
    batches[name] = batchId
    facts[batchId] = {
      ...(name === 'group_mean' || name === 'model again' ? { onFailure: 'group_mean' } : {}),
      ...(name === 'few' ? { normByStd: false } : {}),
      ...(name === 'components' ? { components: ['strict', 'lenient', 'rm'] } : {}),
    }
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  }
  const lines: string[] = []
  for (const run of steps.keys()) {
    // The roll-ups of a batch are written after its end.
    await expect
      .poll(async () => {
        const { pending, steps } = await service.api.runs.get.query({ name: run })
        return pending + steps.filter(({ groupSignals }) => groupSignals === null).length
      })
      .toBe(0)
    const columns = COLUMNS.join(',')
    const response = await fetch(
      `${service.url}/api/export/samples?run=${encodeURIComponent(run)}&columns=${columns}`,
    )
    expect(response.status).toBe(200)
    lines.push(await response.text())
  }
  expect(lines.join('')).not.toContain('"response":')
  numbers = recompute(folder, lines.join(''), facts)
})
test.afterAll(async () => {
  await Promise.all([service?.stop(), ...rms.map((rm) => rm.stop())])
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

const numbersOf = (name: string) => numbers.batches[batches[name] as string] as BatchNumbers
const runNumbers = (name: string) => numbers.runs[name]?.train as RunNumbers

test('the rollouts cover failures, substituted scores, retries and groups without scores', () => {
  expect(numbersOf('strict')).toMatchObject({ samples: 1_600, scored: 1_600, groups: 200 })
  expect(numbersOf('strict').mean).not.toBe(numbersOf('flexible').mean)
  expect(numbersOf('failing').failures).toEqual({ function_error: 43 })
  expect(numbersOf('drop_group').groupSignals.all_failed).toBeGreaterThan(30)
  const model = numbersOf('model')
  expect(model.retries).toBeGreaterThan(0)
  expect(model.failed).toBeGreaterThan(0)
  expect(Object.keys(model.servers).length).toBeGreaterThan(1)
  expect(model.distribution.kind).toBe('histogram')
  expect(runNumbers('exact').heat?.kind).toBe('values')
  expect(runNumbers('exact-models').heat?.kind).toBe('bins')
})

const NOT_COMPUTED = [
  ...['batchId', 'run', 'step', 'split', 'status', 'submittedAt', 'startedAt', 'completedAt'],
  ...['rewardName', 'rewardVersion', 'rescoredFrom', 'rescores', 'reward', 'groupSize', 'priority'],
  ...['deadlineAt', 'open', 'samplesPerSecond', 'etaMs'],
  ...['textsRemovedAt', 'samplesRemovedAt', 'meanError', 'bin', 'verdicts'],
]

test('batch responses match the samples', async () => {
  const found: string[] = []
  for (const [batchId, of] of Object.entries(numbers.batches)) {
    const { tookMs, timeline, groupRows, dataSources, failures, servers, ...plain } = of
    const view = await service.api.batches.view.query({ batchId })
    const unknown = Object.keys(view).filter((key) => !(key in of) && !NOT_COMPUTED.includes(key))
    expect(unknown, 'fields that are not compared').toEqual([])
    found.push(...differences(view, plain, batchId))
    found.push(
      ...differences(
        {
          tookMs: Date.parse(view.completedAt as string) - Date.parse(view.submittedAt),
          dataSources: Object.fromEntries(
            view.dataSources.map(({ dataSource, ...source }) => [dataSource, source]),
          ),
          failures: Object.fromEntries(view.failures.map(({ reason, count }) => [reason, count])),
          servers: Object.fromEntries(
            view.servers.map(({ serverName, ...server }) => [serverName, server]),
          ),
          sizes: [view.dataSources.length, view.failures.length, view.servers.length],
        },
        {
          ...{ tookMs, dataSources, failures, servers },
          sizes: [dataSources, failures, servers].map((each) => Object.keys(each).length),
        },
        batchId,
      ),
    )
    const { items } = await service.api.batches.groups.query({ batchId, limit: 500 })
    const actual = groupRows.map(({ indices, advantages, ...group }) => group)
    found.push(...differences(items, actual, `${batchId} groups`))
    const results = await service.api.batches.results.query({ batchId })
    const advantages = new Array(of.samples).fill(null)
    for (const group of groupRows) {
      for (const [at, index] of group.indices.entries()) advantages[index] = group.advantages[at]
    }
    found.push(...differences(results.advantage, advantages, `${batchId} advantages`))
  }
  expect(found.slice(0, 20)).toEqual([])
})

test('timelines match the samples', async () => {
  const found: string[] = []
  for (const [batchId, { timeline: of }] of Object.entries(numbers.batches)) {
    const actual = await service.api.batches.timeline.query({ batchId })
    const { uid, seq, size, completedMs } = actual.groups
    const groups = of.groups.map(({ uid, seq, size, completedMs }) => ({
      ...{ uid, seq, size, completedMs },
    }))
    found.push(
      ...differences(
        uid.map((of, at) => ({
          ...{ uid: of, seq: seq[at], size: size[at], completedMs: completedMs[at] },
        })),
        groups,
        `${batchId} groups`,
      ),
    )
    const reasons = new Map(
      actual.failed.index.map((index, at) => [index, actual.failed.reason[at]]),
    )
    const attempts = new Map(
      actual.retried.index.map((index, at) => [index, actual.retried.attempts[at]]),
    )
    const marks = Object.fromEntries(
      actual.samples.index.map((index, at) => [
        index,
        {
          dispatchedMs: actual.samples.dispatchedMs[at],
          endedMs: actual.samples.endedMs[at],
          server: actual.servers[actual.samples.server[at] ?? -1] ?? null,
          reason: reasons.get(index) ?? null,
          // The timeline lists attempts only for samples with several attempts.
          attempts: Math.max(attempts.get(index) ?? 1, 1),
        },
      ]),
    )
    const samples = Object.fromEntries(
      Object.entries(of.samples).map(([index, mark]) => [
        index,
        { ...mark, attempts: Math.max(mark.attempts, 1) },
      ]),
    )
    found.push(...differences(marks, samples, `${batchId} samples`))
  }
  expect(found.slice(0, 20)).toEqual([])
})

test('run responses match the samples', async () => {
  const found: string[] = []
  for (const name of Object.keys(numbers.runs)) {
    const of = runNumbers(name)
    const run = await service.api.runs.get.query({ name })
    const { sources, heat, components, ...plain } = of
    found.push(...differences(run, plain, name))
    found.push(
      ...differences(
        Object.fromEntries(run.sources.map(({ name, ...source }) => [name, source])),
        sources,
        `${name} sources`,
      ),
    )
    // The service rounds shares to four decimals.
    found.push(...differences(run.heat, heat, `${name} spread`, 0.000_051))
    const unknown = Object.keys(run.steps[0] ?? {}).filter(
      (key) => !(key in (of.steps[0] ?? {})) && !NOT_COMPUTED.includes(key),
    )
    expect(unknown, 'fields that are not compared').toEqual([])
    const view = await service.api.rewards.components.query({ run: name })
    const actual = view.components.filter(({ name }) => name !== '')
    found.push(
      ...differences(
        Object.fromEntries(actual.map(({ name, points }) => [name, points])),
        components,
        `${name} components`,
      ),
    )
    expect(actual).toHaveLength(Object.keys(components).length)
  }
  expect(found.slice(0, 20)).toEqual([])
})

const percent = (share: number) => bare(percentText(share))
const duration = (ms: number | null) => bare(durationText(ms))
const score = (value: number | null | undefined) => bare(formatScore(value))
const meanStd = (mean: number | null, std: number | null) =>
  `${score(mean)}${std === null ? '' : `±${score(std)}`}`

for (const name of ['strict', 'drop_group', 'constant', 'model']) {
  test(`the page of batch "${name}" matches the samples`, async ({ page }) => {
    const of = numbersOf(name)
    await page.goto(`${service.url}/batches/${batches[name]}?timeline=table`)
    await expect(section(page, 'Latency per sample')).toBeVisible()
    await readFigures(page, of)
    await readCharts(page, of)
    await readSide(page, of)
    await readGroups(page, of)
    await readTimeline(page, of)
  })
}

async function readFigures(page: Page, of: BatchNumbers): Promise<void> {
  const figures = await figuresOf(page.getByLabel('Batch figures'))
  expect(figures).toMatchObject({
    'Samples finished': {
      value: bare(`${formatCount(of.scored + of.failed)}of${formatCount(of.samples)}`),
      detail:
        of.failed === 0
          ? 'Nonefailed'
          : bare(`${formatCount(of.failed)}failed,${percent(of.failed / of.samples)}`),
    },
    'Groups completed': {
      value: bare(`${formatCount(of.groupsCompleted)}of${formatCount(of.groups)}`),
    },
    'Mean reward': {
      value: meanStd(of.mean, of.std),
      detail: bare(`${score(of.min)}to${score(of.max)}`),
    },
    Throughput: {
      value: bare(`${formatRate((of.scored + of.failed) / (of.tookMs / 1000))}samples/s`),
    },
    Retries: {
      value: bare(`${formatCount(of.retries)}${of.retries === 1 ? 'request' : 'requests'}`),
    },
    Duration: { value: duration(of.tookMs) },
  })
}

async function readCharts(page: Page, of: BatchNumbers): Promise<void> {
  const { kind, n, bins } = of.distribution
  const label = (from: number, to: number) =>
    kind === 'bars' ? score(from) : `${score(from)}to${score(to)}`
  expect(await chartRows(page, 'Rewards')).toEqual(
    bins.map(({ from, to, count }) => ({
      Reward: label(from, to),
      Samples: bare(formatCount(count)),
      'Share of samples': percent(count / n),
    })),
  )
  expect(await noteOf(page, 'Rewards')).toContain(`n=${formatCount(n)}scored`)
  expect(await chartRows(page, 'Completed groups over time')).toEqual(
    of.completion.map(({ ms, groups }) => ({
      Time: duration(ms),
      'Groups completed': bare(formatCount(groups)),
    })),
  )
}

async function readSide(page: Page, of: BatchNumbers): Promise<void> {
  const sources = await rowsOf(section(page, 'Data sources').locator('table'))
  expect(Object.fromEntries(sources.map(({ Source, ...row }) => [Source, row]))).toEqual(
    Object.fromEntries(
      Object.entries(of.dataSources).map(([name, source]) => [
        name,
        {
          Scored: bare(`${formatCount(source.scored)}/${formatCount(source.samples)}`),
          Failed: formatCount(source.failed),
          Mean: score(source.mean),
        },
      ]),
    ),
  )
  for (const [reason, count] of Object.entries(of.failures)) {
    const line = section(page, 'Failures').getByRole('link', { name: new RegExp(`^${reason}`) })
    await expect(line.locator('.num').last()).toHaveText(formatCount(count))
  }
  const all = Object.values(of.servers).reduce((sum, { samples }) => sum + samples, 0)
  if (all > 0) {
    const servers = await rowsOf(section(page, 'Scoring servers').locator('table'))
    expect(Object.fromEntries(servers.map(({ Server, ...row }) => [Server, row]))).toEqual(
      Object.fromEntries(
        Object.entries(of.servers).map(([name, { samples, p50Ms, p99Ms }]) => [
          name,
          { Samples: percent(samples / all), p50: duration(p50Ms), p99: duration(p99Ms) },
        ]),
      ),
    )
  }
  expect(await rowsOf(section(page, 'Latency per sample').locator('table'))).toEqual([
    { Stage: 'Queue', p50: duration(of.queueMsP50), p95: duration(of.queueMsP95) },
    { Stage: 'Scoring', p50: duration(of.scoreMsP50), p95: duration(of.scoreMsP95) },
  ])
  expect(await noteOf(page, 'Group signal')).toBe(bare(noSignalText(of.groupSignals)))
}

async function readGroups(page: Page, of: BatchNumbers): Promise<void> {
  const table = page.getByRole('table', { name: 'Groups in completion order' })
  const expected = of.groupRows.map((group) => {
    const waited =
      group.slowestQueueMs > group.slowestScoreMs
        ? `queue${duration(group.slowestQueueMs)}`
        : `scoring${duration(group.slowestScoreMs)}`
    return {
      'No.': formatCount(group.seq),
      Group: `${shortenMiddle(group.uid, 20)}×${formatCount(group.size)}`,
      'Completed after': duration(group.completedMs),
      'Mean ± std': meanStd(group.mean, group.std),
      Signal: bare(SIGNAL_LABEL[group.signal]),
      'Last sample': `#${group.slowestIndex}${waited}`,
    }
  })
  for (const end of ['first', 'last'] as const) {
    const region = page.getByRole('region', { name: 'Groups', exact: true })
    await region.evaluate((element, to) => {
      element.scrollTop = to === 'first' ? 0 : element.scrollHeight
    }, end)
    const seq = end === 'first' ? 1 : of.groupRows.length
    // Wait until the row is loaded. It then shows its last sample, such as "#12".
    await expect(table.locator(`[aria-rowindex="${seq + 1}"]`)).toContainText('#')
    const shown = await rowsOf(table)
    expect(shown.length).toBeGreaterThan(10)
    const from = Number(shown[0]?.['No.']?.replaceAll(',', '')) - 1
    for (const [at, row] of shown.entries()) expect(row).toMatchObject(expected[from + at] ?? {})
  }
}

async function readTimeline(page: Page, of: BatchNumbers): Promise<void> {
  const { groups, stragglerDelayMs, stragglers } = of.timeline
  expect(await noteOf(page, 'Group timeline')).toContain(
    bare(
      `n = ${formatCount(groups.length)} of ${plural(of.groups, 'group')}, ${plural(of.samples, 'sample')} finished`,
    ),
  )
  await expect(section(page, 'Group timeline')).toContainText(
    stragglers === 0
      ? 'No stragglers'
      : `${plural(stragglers, 'straggler')} · straggler delay ${durationText(stragglerDelayMs)}${stragglers > 1 ? ' in total' : ''}`,
  )
  const shown = await rowsOf(page.getByRole('table', { name: 'Group timeline', exact: true }))
  expect(shown.length).toBeGreaterThan(10)
  for (const [at, row] of shown.entries()) {
    const group = groups[at] as (typeof groups)[number]
    expect(row).toMatchObject({
      '#': formatCount(group.seq),
      Group: shortenMiddle(group.uid, 22),
      'First dispatch': duration(group.startMs),
      Completed: duration(group.endMs),
      'Samples finished': bare(
        `${formatCount(group.size)}of${formatCount(group.size)}${group.failed > 0 ? `·${formatCount(group.failed)}failed` : ''}`,
      ),
      'Time to median sample': duration(group.medianMs),
      'Straggler delay': duration(group.stragglerDelayMs),
    })
  }
}

for (const name of ['exact', 'exact-models', 'exact-components']) {
  test(`the page of run "${name}" matches the samples`, async ({ page }) => {
    test.slow()
    const of = runNumbers(name)
    await page.goto(`${service.url}/runs/${name}`)
    await expect(section(page, 'Steps')).toBeVisible()
    await readRunFigures(page, of)
    await readSteps(page, of)
    await readSources(page, of)
  })
}

async function readRunFigures(page: Page, of: RunNumbers): Promise<void> {
  const figures = await figuresOf(page.getByLabel('Run figures'))
  const nothing = of.steps.map(({ groupSignals }) => countsOf(groupSignals))
  const sum = (values: number[]) => values.reduce((all, value) => all + value, 0)
  const waits = of.steps.map(({ waitMs }) => waitMs).sort((a, b) => a - b)
  expect(figures).toMatchObject({
    'Mean reward': { value: score(of.steps.at(-1)?.mean) },
    Step: { value: formatCount(of.steps.at(-1)?.step) },
    Samples: {
      value: bare(formatCompact(of.samples)),
      detail: bare(`${plural(of.batches, 'batch', 'batches')},${formatCompact(of.failed)}failed`),
    },
    'No-signal groups': {
      value: percent(sum(nothing.map((n) => n.nothing)) / sum(nothing.map((n) => n.groups))),
    },
    'Failed samples': {
      value: percent(of.failed / (of.failed + of.scored)),
    },
    'Reward wait': { value: duration(waits[(waits.length - 1) >> 1] ?? null) },
  })
}

async function readSteps(page: Page, of: RunNumbers): Promise<void> {
  const newest = of.steps.toReversed()
  expect(await chartRows(page, 'Reward')).toEqual(
    newest.map((step) => ({
      Step: formatCount(step.step),
      Mean: score(step.mean),
      Std: score(step.std),
      ...Object.fromEntries(
        ['p5', 'p25', 'Median', 'p75', 'p95'].map((head, at) => [
          head,
          score(step.quantiles?.[at]),
        ]),
      ),
      n: formatCount(step.n),
    })),
  )
  expect(await chartRows(page, 'Reward wait')).toEqual(
    newest.map((step) => ({
      Step: formatCount(step.step),
      'Reward wait': duration(step.waitMs),
      'Step time': duration(step.stepMs),
      'Queue, p50': duration(step.queueMsP50),
      'Scoring, p50': duration(step.scoreMsP50),
      'Scoring, p95': duration(step.scoreMsP95),
    })),
  )
  const { heat } = of
  if (heat !== null) {
    const rounded = (share: number) => Math.round(share * 1e4) / 1e4
    const rows = await chartRows(page, 'Reward distribution')
    const label = (row: number) =>
      heat.kind === 'values'
        ? formatScore(heat.edges[row])
        : `${formatScore(heat.edges[row])} to ${formatScore(heat.edges[row + 1])}`
    expect(rows).toEqual(
      heat.steps.toReversed().map(({ step, shares }) => ({
        Step: formatCount(step),
        ...Object.fromEntries(
          shares.map((share, row) => [
            label(row),
            rounded(share) === 0 ? '0' : percent(rounded(share)),
          ]),
        ),
      })),
    )
  }
  const failed = newest.some((step) => step.failed > 0)
  if (failed) {
    const rows = await chartRows(page, 'Failed samples')
    expect(rows.map(({ Reasons, ...row }) => row)).toEqual(
      newest.map((step) => ({
        Step: formatCount(step.step),
        Failed: formatCount(step.failed),
        'Share of samples': percent(step.failed / (step.failed + step.scored)),
      })),
    )
    for (const [at, { reasons }] of newest.entries()) {
      for (const [reason, count] of Object.entries(reasons))
        expect(rows[at]?.Reasons).toContain(`${reason}${formatCount(count)}`)
    }
  }
  const silent = (
    ['all_correct', 'all_incorrect', 'all_equal', 'single_sample', 'all_failed'] as const
  ).filter((signal) => of.steps.some(({ groupSignals }) => groupSignals[signal] > 0))
  if (silent.length > 0) {
    expect(await chartRows(page, 'No-signal groups')).toEqual(
      newest.map(({ step, groupSignals }) => {
        const { groups } = countsOf(groupSignals)
        return {
          ...{ Step: formatCount(step), Groups: formatCount(groups) },
          ...Object.fromEntries(
            silent.map((signal) => [SIGNAL_LABEL[signal], percent(groupSignals[signal] / groups)]),
          ),
        }
      }),
    )
  }
  const listed = await rowsOf(section(page, 'Steps').locator('table'))
  expect(listed).toHaveLength(newest.length)
  for (const [at, step] of newest.entries()) {
    const { groups, nothing } = countsOf(step.groupSignals)
    expect(listed[at]).toMatchObject({
      Step: formatCount(step.step),
      Batch: step.batchId,
      Mean: score(step.mean),
      Std: score(step.std),
      Samples: formatCount(step.samples),
      Failed: formatCount(step.failed),
      'No-signal groups': percent(nothing / groups),
      'Reward wait': duration(step.waitMs),
    })
  }
}

async function readSources(page: Page, of: RunNumbers): Promise<void> {
  // A run with few distinct scores has no quartiles, because they would not be informative.
  const hasQuartiles = of.heat?.kind !== 'values' || of.heat.edges.length > FEW_VALUES
  for (const [name, { points }] of Object.entries(of.sources)) {
    expect(await chartRows(page, name)).toEqual(
      points.toReversed().map((point) => ({
        Step: formatCount(point.step),
        Mean: score(point.mean),
        ...(hasQuartiles ? { p25: score(point.q25), p75: score(point.q75) } : {}),
        n: formatCount(point.n),
      })),
    )
  }
  for (const [name, points] of Object.entries(of.components)) {
    expect(await chartRows(page, name)).toEqual(
      points.toReversed().map((point) => ({
        Step: formatCount(point.step),
        Mean: score(point.mean),
        Std: score(point.std),
        n: formatCount(point.n),
      })),
    )
  }
}
