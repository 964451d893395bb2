import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { EXIT } from '../../packages/cli/exit-codes.ts'
import { readLines } from '../../packages/cli/rollouts/lines.ts'
import { startCli } from '../../packages/cli/testing/run-cli.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const ROWS = 1_000_000
const STEPS = 4
const GROUP = 8
/**
 * Maximum resident memory, in MiB. The CLI reaches 340 MiB with 400,000 rows and 315 MiB with a million. Only 40 to 90
 * MiB are in use, because V8 frees memory late. The server reaches 330 MiB with 60,000 rows and 540 MiB with a million.
 * A million rows in memory would add 700 MiB.
 */
const MAX_CLI_MB = 448
const MAX_SERVER_MB = 768

const folder = mkdtempSync(join(tmpdir(), 'rewardops-million-'))
const source = join(folder, 'rows.jsonl')
let service: Service

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
})

afterAll(() => stopCleanly(service, () => rmSync(folder, { recursive: true, force: true })))

function row(i: number) {
  const step = Math.floor((i * STEPS) / ROWS)
  const odd = i % 1_000 === 7 ? 'NUL \u0000, lone \ud800, \u2028, é😀 ' : ''
  return {
    run: 'million',
    step,
    split: 'train',
    uid: `q-${Math.floor(i / GROUP)}`,
    dataSource: 'openai/gsm8k',
    prompt: `Question ${Math.floor(i / GROUP)}: 48 + 24?`,
    response: `${odd}Rollout ${i} thinks for a while, and 48 + 24 = ${i % 2 === 0 ? 72 : 71}.\n#### 72`,
    groundTruth: i % 3 === 0 ? { target: ['72'] } : '72',
    extraInfo: { i },
    responseLength: i % 512,
    score: (i % 64) / 64,
  }
}

async function writeSource(): Promise<string> {
  const out = createWriteStream(source)
  const hash = createHash('sha256')
  let text = ''
  for (let i = 0; i < ROWS; i++) {
    const line = JSON.stringify(row(i))
    hash.update(`${line}\n`)
    text += `${line}\n`
    if (text.length < 1 << 20 && i + 1 < ROWS) continue
    if (!out.write(text)) await once(out, 'drain')
    text = ''
  }
  out.end()
  await once(out, 'finish')
  return hash.digest('hex')
}

async function hashOf(path: string): Promise<{ rows: number; hash: string }> {
  const fields = Object.keys(row(0))
  const hash = createHash('sha256')
  let rows = 0
  for await (const { text } of readLines(path)) {
    const line = JSON.parse(text) as Record<string, unknown>
    hash.update(`${JSON.stringify(Object.fromEntries(fields.map((name) => [name, line[name]])))}\n`)
    rows++
  }
  return { rows, hash: hash.digest('hex') }
}

function residentMb(pid: number): number {
  const status = `/proc/${pid}/status`
  const kb = existsSync(status) ? /^VmRSS:\s+(\d+)/m.exec(readFileSync(status, 'utf8'))?.[1] : 0
  return Math.round(Number(kb ?? 0) / 1_024)
}

const peaks = { cliMb: 0, serverMb: 0 }

async function watched(args: string[], killWhen?: () => Promise<boolean>) {
  const cli = startCli(args, { REWARDOPS_URL: service.url })
  const { server } = await service.pids()
  const look = setInterval(() => {
    peaks.cliMb = Math.max(peaks.cliMb, residentMb(cli.child.pid as number))
    peaks.serverMb = Math.max(peaks.serverMb, residentMb(server))
  }, 250)
  const begun = performance.now()
  try {
    if (killWhen) {
      await waitFor('the time to kill', killWhen, 600_000)
      cli.child.kill('SIGKILL')
    }
    const run = await cli.ended
    return { ...run, seconds: (performance.now() - begun) / 1_000 }
  } finally {
    clearInterval(look)
  }
}

const batches = async () => (await service.api.batches.list.query({ run: 'million' })).items
const stored = async () => (await batches()).reduce((sum, { samples }) => sum + samples, 0)

it('1,000,000 rows survive a killed import and a killed export unchanged, in constant memory', async () => {
  const wanted = await writeSource()

  const killed = await watched(['import', source], async () => (await stored()) > ROWS * 0.3)
  expect(killed.signal).toBe('SIGKILL')
  expect(await stored()).toBeLessThan(ROWS)
  const imported = await watched(['import', source, '--json'])
  expect(imported, imported.stderr).toMatchObject({ code: EXIT.ok })
  const summary = JSON.parse(imported.stdout) as { before: number; rows: number }
  expect(summary.rows).toBe(ROWS)
  expect(summary.before).toBeGreaterThan(ROWS * 0.3)
  expect(imported.stderr).toMatch(/[\d,]+ of 1,000,000 {2}[\d,]+ rows\/s, .* left/)
  for (const batch of await batches()) {
    const each = ROWS / STEPS
    expect(batch).toMatchObject({ samples: each, scored: each, failed: 0, groups: each / GROUP })
  }

  const out = join(folder, 'out.jsonl')
  const half = await watched(['export', '--run', 'million', '--out', out], async () => {
    const part = `${out}.part`
    return existsSync(part) && statSync(part).size > 100 << 20
  })
  expect(half.signal).toBe('SIGKILL')
  const exported = await watched([
    ...['export', '--run', 'million', '--out', out],
    ...['--resume', '--json'],
  ])
  expect(exported, exported.stderr).toMatchObject({ code: EXIT.ok })
  expect(JSON.parse(exported.stdout)).toMatchObject({ rows: ROWS, complete: 0 })
  expect(await hashOf(out)).toEqual({ rows: ROWS, hash: wanted })

  const seconds = [killed, imported, half, exported].map((run) => run.seconds.toFixed(0))
  console.log(
    `1,000,000 rows: import ${seconds[0]} s, killed, and ${seconds[1]} s; export ${seconds[2]} s, killed, and ` +
      `${seconds[3]} s; at most ${peaks.cliMb} MiB in the CLI, ${peaks.serverMb} MiB in the server`,
  )
  expect(peaks.cliMb).toBeLessThan(MAX_CLI_MB)
  expect(peaks.serverMb).toBeLessThan(MAX_SERVER_MB)
}, 1_200_000)
