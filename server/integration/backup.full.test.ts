import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type PageQuery, pageQueries } from '../../bench/pages.ts'
import { seedData } from '../../scripts/seed-data.ts'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { expectExactlyOnce } from '../../testkit/service/follow-batch.ts'
import { hashScore, rollouts } from '../../testkit/service/rollouts.ts'
import { environment, Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { GroupResult } from '../contract/trainer.ts'
import { createLogger } from '../log.ts'
import { createTestDatabase, type TestDatabase } from '../store/postgres/test-database.ts'

const ROOT = join(import.meta.dirname, '../..')
const SAMPLES = 2_000
const GROUPS = SAMPLES / 8
const KEY = '5e'.repeat(32)

/** Queries whose answers depend on the processes that run, or on the time of the query. */
const LIVE = new Set([
  ...['overview.get', 'fleet.history', 'workers.list', 'servers.list', 'servers.monitors'],
  ...['pools.list', 'about.get'],
])

let folder: string
let rm: SimulatedServers
let own: TestDatabase

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-backup-'))
  ;[rm, own] = await Promise.all([
    startSimulatedServers(['--latency', '100']),
    createTestDatabase({ template: null }),
  ])
})
afterAll(async () => {
  await rm?.stop()
  await own?.drop()
  rmSync(folder, { recursive: true, force: true })
})

const start = (script: 'backup' | 'restore', args: string[], env: Record<string, string>) =>
  spawn(process.execPath, [join(ROOT, 'scripts', `${script}.ts`), ...args], {
    cwd: ROOT,
    env: environment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })

async function run(
  script: 'backup' | 'restore',
  args: string[],
  env: Record<string, string>,
): Promise<string> {
  const child = start(script, args, env)
  let said = ''
  let failed = ''
  child.stdout.on('data', (text) => {
    said += text
  })
  child.stderr.on('data', (text) => {
    failed += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(failed)
  return said
}

async function pagesOf(service: Service): Promise<Record<string, unknown>> {
  const ask = async (procedure: string, input: unknown) => {
    const query = input === undefined ? '' : `?input=${encodeURIComponent(JSON.stringify(input))}`
    const { status, text, json } = await service.raw(`/api/trpc/${procedure}${query}`)
    if (status !== 200) throw new Error(`${procedure}: ${text}`)
    return { data: (json as { result: { data: unknown } }).result.data, bytes: text.length }
  }
  const answers: Record<string, unknown> = {}
  const stored = (await pageQueries(ask)).filter(([, procedure]) => !LIVE.has(procedure))
  for (const [page, procedure, input] of stored as PageQuery[]) {
    answers[`${page} (${procedure})`] = (
      await ask(procedure, typeof input === 'function' ? input(0) : input)
    ).data
  }
  return answers
}

/** Whether a search stopped at its time limit, so that the answer depends on the speed of the machine. */
const isPartial = (answer: unknown) =>
  (answer as { searched?: { all: boolean } } | null)?.searched?.all === false

it('a backup of a running service restores its pages and cursors, and its batch ends', async () => {
  const service = await Service.start({ env: { REWARDOPS_SECRETS_KEY: KEY } })
  try {
    const env = { REWARDOPS_DATA_DIR: service.dataDir, REWARDOPS_SECRETS_KEY: KEY }
    const log = createLogger('error', 'test')
    await seedData({ dataDir: service.dataDir, samples: 12_000, seed: 1, log })
    await service.api.servers.register.mutate({
      ...{ name: 'rm', url: rm.url, apiKey: 'sk-of-the-server' },
    })
    const samples = rollouts(SAMPLES, 8, 'backup')
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run: 'backup', step: 1, samples, reward: { model: 'simulated-rm' } },
    })
    const groups: GroupResult[] = []
    let cursor: string | null = null
    const read = async (until: number) => {
      for (let done = false; !done && groups.length < until; ) {
        const input = { batchId, after: cursor, samples: 64, waitMs: 5_000 }
        const page = await service.api.batches.next.query(input)
        groups.push(...page.groups)
        ;({ cursor, done } = page)
      }
    }
    await read(GROUPS / 5)
    const file = join(folder, 'online.tar')
    await run('backup', [file], env)
    const atBackup = groups.length
    await service.stop()

    for (const name of readdirSync(service.dataDir)) {
      rmSync(join(service.dataDir, name), { recursive: true })
    }
    expect(await run('restore', [file], env)).toMatch(/[1-9][\d,]* unfinished samples are queued/)
    await service.restart()
    // The trainer continues with the cursor that it had before the backup.
    await read(Number.POSITIVE_INFINITY)
    expect(groups.length).toBeGreaterThan(atBackup)
    const followed = { batchId, groups, done: Promise.resolve(), repeated: 0, stop: () => {} }
    const results = await expectExactlyOnce(service, followed, SAMPLES, GROUPS)
    expect(results.map((result) => result.score)).toEqual(samples.map(hashScore))
    const { text: metrics } = await service.raw('/metrics')
    expect(metrics).toMatch(/^rewardops_orphaned_samples_total(\{.*\})? 0$/m)
    // The same secrets key still decrypts the API key of the server.
    const servers = await service.api.servers.list.query()
    expect(servers.find(({ name }) => name === 'rm')).toMatchObject({ state: 'ready' })

    await waitFor('roll-ups and monitors of all batches', async () => {
      const left = await service.sql(
        'select 1 from batch where not rolled_up or not in_run_roll_up',
      )
      return left.length === 0 && (await service.api.monitors.list.query()).pending === 0
    })
    const before = await pagesOf(service)
    expect(Object.keys(before).length).toBeGreaterThan(50)
    await service.stop()
    const stopped = join(folder, 'stopped.tar')
    await run('backup', [stopped], env)
    const ownEnv = { ...env, DATABASE_URL: own.url, REWARDOPS_DATA_DIR: join(folder, 'own') }
    await run('restore', [stopped], ownEnv)
    const moved = await Service.start({
      env: { DATABASE_URL: own.url, REWARDOPS_SECRETS_KEY: KEY },
    })
    try {
      const after = await pagesOf(moved)
      const complete = Object.keys(before).filter(
        (page) => !isPartial(before[page]) && !isPartial(after[page]),
      )
      expect(complete.length).toBeGreaterThan(45)
      const differing = complete.filter((page) => !isDeepStrictEqual(after[page], before[page]))
      expect(differing.map((page) => [page, after[page]])).toEqual(
        differing.map((page) => [page, before[page]]),
      )
      expect(await moved.api.batches.next.query({ batchId, samples: 1_000_000 })).toMatchObject({
        groups,
        done: true,
      })
      await expect(run('restore', [stopped, '--replace'], ownEnv)).rejects.toThrow(
        /servers and workers use this database/,
      )
    } finally {
      await moved.stop()
      await moved.destroy()
    }
    const back = { ...env, REWARDOPS_DATA_DIR: join(folder, 'back') }
    await run('backup', [join(folder, 'own.tar')], ownEnv)
    await run('restore', [join(folder, 'own.tar')], back)
    await expect(run('restore', [join(folder, 'own.tar')], back)).rejects.toThrow(
      /is not empty.*add --replace/,
    )
  } finally {
    await service.destroy()
  }
}, 900_000)

it('a killed backup and a killed restore leave nothing', async () => {
  const dataDir = join(folder, 'killed')
  const env = { REWARDOPS_DATA_DIR: dataDir }
  const log = createLogger('error', 'test')
  await seedData({ dataDir, samples: 60_000, seed: 1, log })
  const file = join(folder, 'killed.tar')
  const partial = () => readdirSync(folder).find((name) => name.startsWith('killed.tar.'))
  const backup = start('backup', [file], env)
  await waitFor('the beginning of the file', () => {
    const name = partial()
    return name !== undefined && statSync(join(folder, name)).size > 10_000
  })
  backup.kill('SIGKILL')
  await once(backup, 'close')
  expect(existsSync(file)).toBe(false)
  const into = { REWARDOPS_DATA_DIR: join(folder, 'killed-restore') }
  await expect(run('restore', [join(folder, partial()!)], into)).rejects.toThrow(
    /is incomplete|has no manifest/,
  )
  expect(existsSync(into.REWARDOPS_DATA_DIR)).toBe(false)

  await run('backup', [file], env)
  const restore = start('restore', [file], into)
  let progress = ''
  restore.stderr.on('data', (text) => {
    progress += text
  })
  await waitFor('loaded rows', () => /MB of rows/.test(progress) || restore.exitCode !== null)
  expect(restore.exitCode).toBe(null)
  restore.kill('SIGKILL')
  await once(restore, 'close')
  expect(await run('restore', [file], into)).toMatch(/Restored [\d,]+ rows/)
}, 900_000)
