import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { styleText } from 'node:util'
import {
  type Counts,
  countPlaywright,
  countVitest,
  failedInPlaywright,
  failedInVitest,
} from './report-counts.ts'

// Runs all checks and tests, even after failures, and ends with one line: `N passed, N failed`, and `, N skipped` if
// tests were skipped. A check counts as one test. The suites run side by side, and each line of their output starts
// with the suite's name. The full run contains tests that measure time, so its suites run one after the other.
//   --static   the checks alone

const root = join(import.meta.dirname, '..')
const REPORTS = join(root, 'test-results')

interface Step {
  name: string
  command: string[]
  /** The suite's report and its counter. A check has no suite and prints only failures. */
  suite?: { report: string; count(report: unknown): Counts; failed(report: unknown): string[] }
}

function bin(packageName: string, file: string): string {
  const manifest = createRequire(import.meta.url).resolve(`${packageName}/package.json`)
  return join(dirname(manifest), file)
}

const CHECKS: Step[] = [
  { name: 'biome', command: [bin('@biomejs/biome', 'bin/biome'), 'ci', '--colors=off'] },
  { name: 'types', command: [bin('typescript', 'bin/tsc'), '--noEmit'] },
  { name: 'imports', command: ['scripts/check-architecture.ts'] },
  { name: 'glossary', command: ['scripts/check-glossary.ts'] },
  { name: 'api reference', command: ['scripts/api-doc.ts', '--check'] },
  { name: 'migrations', command: ['scripts/check-migrations.ts'] },
  { name: 'packages', command: ['scripts/supply-chain.ts'] },
]

const SUITES: Step[] = [
  {
    name: 'vitest',
    command: [
      bin('vitest', 'vitest.mjs'),
      ...['run', '--reporter=default', '--reporter=json'],
      `--outputFile.json=${join(REPORTS, 'vitest.json')}`,
    ],
    suite: {
      report: join(REPORTS, 'vitest.json'),
      count: countVitest,
      failed: failedInVitest,
    },
  },
  {
    name: 'playwright',
    command: [bin('@playwright/test', 'cli.js'), 'test', '--pass-with-no-tests'],
    suite: {
      report: join(REPORTS, 'playwright.json'),
      count: countPlaywright,
      failed: failedInPlaywright,
    },
  },
]

const LONGEST_SUITE = Math.max(...SUITES.map(({ name }) => name.length))

async function main(): Promise<void> {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 }
  const failures: string[] = []
  const perform = async (step: Step) => {
    const startedAt = performance.now()
    const counts = await runStep(step)
    for (const key of ['passed', 'failed', 'skipped'] as const) total[key] += counts[key]
    if (counts.failed > 0) failures.push(step.name)
    const verdict = counts.failed > 0 ? styleText('red', 'failed') : styleText('green', 'passed')
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    const detail = step.suite ? ` (${summary(counts)})` : ''
    console.log(`${step.name}: ${verdict} in ${seconds} s${detail}`)
  }
  // Each check uses one core for most of its time.
  await Promise.all(CHECKS.map(perform))
  const suites = process.argv.includes('--static') ? [] : SUITES
  if (process.env.REWARDOPS_TEST_FULL === '1') for (const suite of suites) await perform(suite)
  // The suites run side by side, because each alone leaves a fifth to a third of two cores idle.
  else await Promise.all(suites.map(perform))
  for (const { suite } of suites) {
    if (!suite || !existsSync(suite.report)) continue
    const failed = suite.failed(JSON.parse(readFileSync(suite.report, 'utf8')))
    for (const test of failed) console.log(`  ${test.replace(`${root}/`, '')}`)
  }
  if (failures.length > 0) console.log(`failed: ${failures.join(', ')}`)
  console.log(summary(total))
  process.exitCode = total.failed > 0 ? 1 : 0
}

function summary({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}

async function runStep({ name, command, suite }: Step): Promise<Counts> {
  if (suite) {
    mkdirSync(REPORTS, { recursive: true })
    rmSync(suite.report, { force: true })
  }
  const { ok, output } = await run(command, suite && `${name.padEnd(LONGEST_SUITE)} | `)
  if (!suite) {
    if (!ok) console.log(output.trim())
    return { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 }
  }
  const counts = existsSync(suite.report)
    ? suite.count(JSON.parse(readFileSync(suite.report, 'utf8')))
    : { passed: 0, failed: 0, skipped: 0 }
  // The error occurred outside of any test: the suite did not start, or failed after the last test.
  if (!ok && counts.failed === 0) counts.failed = 1
  return counts
}

const running = new Set<ChildProcess>()
let isStopped = false

/** Runs a file with this Node. With a prefix, its output is also printed as it comes, one prefixed line at a time. */
function run(command: string[], prefix?: string): Promise<{ ok: boolean; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...(prefix && process.stdout.isTTY ? { FORCE_COLOR: '1' } : {}) },
    })
    running.add(child)
    const forward = (signal: NodeJS.Signals) => {
      // Vitest ends with an exit code, not with the signal.
      isStopped = true
      child.kill(signal)
    }
    process.once('SIGINT', forward).once('SIGTERM', forward)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      if (prefix === undefined) {
        stream.setEncoding('utf8').on('data', (piece: string) => {
          output += piece
        })
      } else {
        createInterface(stream).on('line', (line) => console.log(prefix + line))
      }
    }
    child.once('error', reject)
    child.once('close', (code, signal) => {
      process.off('SIGINT', forward).off('SIGTERM', forward)
      running.delete(child)
      if (signal === 'SIGINT' || signal === 'SIGTERM') {
        isStopped = true
        for (const other of running) other.kill(signal)
      }
      // If a signal ended one suite or check, the running ones are stopped, and the remaining ones are skipped.
      if (isStopped && running.size === 0) process.exit(1)
      resolve({ ok: code === 0, output })
    })
  })
}

await main()
