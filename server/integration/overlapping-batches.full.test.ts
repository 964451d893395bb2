import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { readJournal } from '../../testkit/service/overlapping/journal.ts'
import {
  BATCH_SAMPLES,
  BATCHES,
  GROUP_SIZE,
  lengthOf,
  stepOf,
} from '../../testkit/service/overlapping/steps.ts'
import { hashScore } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const TRAINER = fileURLToPath(
  new URL('../../testkit/service/overlapping/trainer.ts', import.meta.url),
)
const GROUPS = BATCH_SAMPLES / GROUP_SIZE

let service: Service
let rm: SimulatedServers
let dir: string
let trainer: ChildProcess | null = null

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'rewardops-overlapping-'))
  ;[service, rm] = await Promise.all([Service.start(), startSimulatedServers()])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url, maxInFlight: 8_192 })
  // The latency is set after the registration, because the registration calls the server several times. A few samples
  // are so slow that every batch still runs at the second kill, even on a slow machine.
  await rm.control({
    running: 10_000,
    latency: 'uniform:2000,8000',
    slowShare: 0.005,
    slowMs: 20_000,
  })
})

afterAll(async () => {
  trainer?.kill('SIGKILL')
  const problems = service?.log.problems()
  await service?.stop().finally(() => service.destroy())
  await rm?.stop()
  rmSync(dir, { recursive: true, force: true })
  expect(problems).toEqual([])
})

const batches = async () => (await service.api.batches.list.query({ run: 'overlapping' })).items

it('8,192 samples in 4 overlapping batches reach a trainer that is killed twice; each group arrives once and in order', {
  timeout: 180_000,
}, async () => {
  const journal = join(dir, 'journal.jsonl')
  const start = () => {
    const args = [TRAINER, '--url', service.url, '--journal', journal]
    trainer = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] })
    return { child: trainer, ended: once(trainer, 'exit') }
  }
  const trained = () => {
    try {
      return readFileSync(journal, 'utf8').split('\n').length - 1
    } catch {
      return 0
    }
  }

  let { child, ended } = start()
  const inFlight = await waitFor('all four steps in flight', async () => {
    const all = await batches()
    return all.length === BATCHES && all.every((batch) => batch.status === 'running') && all
  })
  expect(inFlight.reduce((n, batch) => n + batch.samples, 0)).toBe(BATCHES * BATCH_SAMPLES)
  for (const share of [0.15, 0.5]) {
    // A line of the journal has about 64 samples.
    const lines = (share * BATCHES * BATCH_SAMPLES) / 64
    await waitFor(`${share} of the samples trained on`, () => trained() >= lines, 120_000)
    child.kill('SIGKILL')
    expect(await ended).toEqual([null, 'SIGKILL'])
    expect((await batches()).some((batch) => batch.status === 'running')).toBe(true)
    ;({ child, ended } = start())
  }
  expect(await ended).toEqual([0, null])
  trainer = null

  const all = await batches()
  expect(all).toHaveLength(BATCHES)
  for (const batch of all) {
    expect(batch).toMatchObject({
      status: 'completed',
      samples: BATCH_SAMPLES,
      scored: BATCH_SAMPLES,
      groupsCompleted: GROUPS,
    })
  }
  const { lines } = readJournal(journal)
  for (let step = 0; step < BATCHES; step++) {
    const mine = lines.filter((line) => line.step === step)
    const groups = mine.flatMap((line) => line.groups)
    expect(groups.map((group) => group.seq)).toEqual(
      Array.from({ length: GROUPS }, (_, i) => i + 1),
    )
    expect(new Set(groups.map((group) => group.uid)).size).toBe(GROUPS)
    const sent = groups.toSorted((a, b) => (a.samples[0]?.index ?? 0) - (b.samples[0]?.index ?? 0))
    expect(groups.map((group) => group.uid)).not.toEqual(sent.map((group) => group.uid))
    let left = BATCH_SAMPLES
    for (const line of mine) {
      left -= line.groups.length * GROUP_SIZE
      expect(line.remaining).toBe(left)
    }
    expect(left).toBe(0)
    const { samples } = stepOf(step)
    const results = sent.flatMap((group) => group.samples)
    expect(results).toEqual(
      samples.map((sample, index) => ({
        index,
        score: hashScore(sample),
        position: lengthOf(index) === 0 ? null : lengthOf(index) - 1,
      })),
    )
    for (const { uid, samples: members } of groups)
      expect(members.map(({ index }) => samples[index]?.uid)).toEqual(
        new Array(GROUP_SIZE).fill(uid),
      )
  }
  const { maxInFlight } = await rm.counters()
  expect(maxInFlight).toBeGreaterThan(BATCH_SAMPLES)
})
