import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FULL, itInFullRun } from '../../testkit/service/full-run.ts'
import { type Sample, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const CLIENT = join(import.meta.dirname, '../../packages/client-python')
const REWARDS = join(CLIENT, 'tests/rewards.py')
const SAMPLES = FULL ? 2_000 : 100

const python = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'])
const missing = python.status !== 0
if (missing) {
  console.warn('python3 (3.9 or newer) is not installed: tests of the Python client are skipped')
}

let service: Service
const served: Served[] = []

beforeAll(async () => {
  if (!missing) ({ service } = await sharedService())
})
afterAll(() =>
  leaveShared(service, () => {
    for (const { child, temporary } of served) {
      child.kill('SIGKILL')
      rmSync(temporary, { recursive: true, force: true })
    }
  }),
)

interface Served {
  child: ChildProcess
  model: string
  /** Its folder for temporary files. */
  temporary: string
  events: { event: string; [key: string]: unknown }[]
}

async function serve(name: string, ...options: string[]): Promise<Served> {
  const model = `py-${name}`
  const words = ['serve-reward', `${REWARDS}:${name}`, '--register', service.url, '--model', model]
  return run(name, model, [...words, ...options])
}

async function run(name: string, model: string, words: readonly string[]): Promise<Served> {
  const temporary = mkdtempSync(join(tmpdir(), 'serve-reward-'))
  chmodSync(temporary, 0o711)
  const child = spawn('python3', ['-m', 'rewardops', ...words, '--json'], {
    env: { ...environment(), TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const it: Served = { child, model, temporary, events: [] }
  served.push(it)
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  createInterface(child.stdout!).on('line', (line) => it.events.push(JSON.parse(line)))
  const ended = once(child, 'exit').then(([code]) => code as number)
  ended.catch(() => {})
  await waitFor(`${name} to be registered`, () => {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${said}`)
    return it.events.some(({ event }) => event === 'registered')
  })
  return it
}

function environment(): NodeJS.ProcessEnv {
  const { PATH, HOME, NODE_ENV } = process.env
  return { PATH, HOME, NODE_ENV, PYTHONPATH: join(CLIENT, 'src') }
}

function calledDirectly(name: string, samples: readonly Sample[]): number[] {
  const lines = samples.map((s) => JSON.stringify({ extraInfo: {}, ...s })).join('\n')
  const done = spawnSync('python3', [join(CLIENT, 'tests/direct.py'), name], { input: lines })
  if (done.status !== 0) throw new Error(String(done.stderr))
  return String(done.stdout).trim().split('\n').map(Number)
}

const submit = (model: string, samples: Sample[]) =>
  service.api.batches.submit.mutate({ run: 'python', step: 1, samples, reward: { model } })

async function listed(model: string) {
  const servers = await service.api.servers.list.query()
  return servers.filter((server) => server.model === model)
}

async function scoredBy(model: string, samples: Sample[]) {
  const { batchId } = await submit(model, samples)
  const ended = () => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  while ((await ended()).completedAt === null);
  return service.api.batches.results.query({ batchId })
}

async function results(model: string, samples: Sample[]) {
  const { batchId } = await submit(model, samples)
  const count = samples.length
  return service.api.batches.next.query({ batchId, samples: count, waitMs: 60_000 })
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function answers(count: number): Sample[] {
  const endings = [
    '#### 72',
    '#### 71',
    'I do not know.',
    '#### 7,2',
    'é😀 ####72.',
    '#### 72 #### 3',
  ]
  return Array.from({ length: count }, (_, i) =>
    sample({
      uid: `q-${i >> 3}`,
      response: `${'So 48 + 24. '.repeat(i % 50)}${endings[i % endings.length]}`,
      extraInfo: { index: i },
    }),
  )
}

describe.skipIf(missing)('an unchanged verl reward function', () => {
  const shapes: [string, string[]][] = [
    ['compute_score', ['acc']],
    ['compute_score_async', ['acc', 'pred']],
    ['Scorer', ['acc', 'explanation', 'prompt']],
  ]
  it.concurrent.each(FULL ? shapes : shapes.slice(2))(
    `scores ${SAMPLES} samples as in direct calls: %s`,
    async (name, extraKeys) => {
      const { model, child, events } = await serve(name, '--processes', '1')
      expect(await listed(model)).toMatchObject([
        { engine: 'http', kind: 'discriminative', state: 'ready' },
      ])
      const samples = answers(SAMPLES)
      const results = await scoredBy(model, samples)
      expect(results.score).toEqual(calledDirectly(name, samples))
      expect(new Set(results.status)).toEqual(new Set(['scored']))
      expect(new Set(results.score)).toEqual(new Set([0, 1]))
      expect([...results.rewardExtraKeys].sort()).toEqual(extraKeys)

      child.kill('SIGTERM')
      await waitFor('its exit', () => child.exitCode !== null)
      expect(child.exitCode).toBe(0)
      // The last line may be read after the exit event.
      await waitFor('its last line', () => events.at(-1)?.event === 'stopped')
      // `no_own_user` occurs for root if other users cannot read the Python installation.
      const seen = events.map(({ event }) => event).filter((event) => event !== 'no_own_user')
      expect(seen).toEqual(['ready', 'registered', 'removed', 'stopped'])
      expect(await listed(model)).toEqual([])
    },
    180_000,
  )

  it('accepts kwargs and its own key', async () => {
    const kwargs = JSON.stringify({ score: 5, format_score: 0.25 })
    const { model } = await serve('partial_score', '--kwargs', kwargs, '--api-key', 'sk-reward')
    const { score } = await scoredBy(model, [
      sample(),
      sample({ response: '#### 71' }),
      sample({ response: '' }),
    ])
    expect(score).toEqual([5, 0.25, 0])
  })

  itInFullRun(
    'runs with the command of an imported configuration, and scores with its reward',
    async () => {
      const text = `
custom_reward_function:
  path: ${REWARDS}
  name: compute_score
  reward_kwargs: {score: 5, format_score: 0.25}
`
      const config = await service.api.rewards.importConfig.mutate({ text })
      const { command, model } = config.functionServer!
      expect(command[0]).toBe('rewardops')
      await run('the import', model, command.slice(1))
      const { batchId } = await service.api.batches.submit.mutate({
        run: 'imported',
        step: 1,
        reward: config.reward,
        samples: [sample(), sample({ response: '#### 71' })],
      })
      const ended = () => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
      while ((await ended()).completedAt === null);
      const { score } = await service.api.batches.results.query({ batchId })
      expect(score).toEqual([5, 0.25])
    },
  )

  it.concurrent.each(FULL ? ['misbehaves', 'misbehaves_async'] : ['misbehaves'])(
    'fails only the sample on which it hangs, exits or raises, with the reason: %s',
    async (name) => {
      const { model, events } = await serve(name, '--timeout', '2', '--processes', '2')
      const bad = {
        loop: 'timeout',
        exit: 'function_error',
        'sys.exit': 'function_error',
        raise: 'function_error',
      }
      const fine = Array.from({ length: 60 }, () => 'fine')
      const samples = [...Object.keys(bad), ...fine].map((response, i) =>
        sample({ uid: `u-${i}`, response }),
      )
      const { groups } = await results(model, samples)
      const delivered = groups.flatMap((g) => g.samples).sort((a, b) => a.index - b.index)
      expect(delivered.map(({ score }) => score)).toEqual([
        ...Array(4).fill(null),
        ...fine.map(() => 1),
      ])
      expect(delivered.slice(0, 4).map(({ reason }) => reason)).toEqual(Object.values(bad))
      const replaced = events.filter(({ event }) => event === 'process_replaced')
      expect(replaced.length).toBe(2)
      for (const { pid } of replaced) await waitFor('its end', () => !isAlive(pid as number))
    },
  )

  it('fails only those calls of a crashed process that also crash when run alone', async () => {
    const { model, temporary } = await serve('misbehaves_async', '--processes', '1')
    const texts = ['crash later', 'crash later', 'fine']
    const samples = texts.map((response, i) => sample({ uid: `u-${i}`, response }))
    const { groups } = await results(model, samples)
    const delivered = groups.flatMap((g) => g.samples).sort((a, b) => a.index - b.index)
    expect(delivered.map(({ reason }) => reason)).toEqual([
      'function_error',
      'function_error',
      null,
    ])
    // Each process had a folder of its own.
    const folders = () => readdirSync(temporary).filter((each) => /^rewardops-function-/.test(each))
    await waitFor('the folders of the ended processes to be removed', () => folders().length === 1)
  })
})

it.skipIf(missing)('the Python client passes its own tests that need no service', async () => {
  const errors = [
    ...['a_call_ends_at_its_timeout', 'temporary_failures_are_retried_with_the_same_key'],
    ...['a_refusal_has_all_fields', 'a_batch_is_cancelled_if_a_later_part_of_it_is_refused'],
  ]
  const tests = [
    ...['tests.test_samples', 'tests.test_turns', 'tests.test_trace_context'],
    ...['tests.test_notebook.NotebookFile', 'tests.test_export_metrics.OptionsTest'],
    ...errors.map((name) => `tests.test_client_errors.Errors.test_${name}`),
  ]
  const options = { cwd: CLIENT, env: environment(), timeout: 120_000 }
  await promisify(execFile)('python3', ['-m', 'unittest', ...tests], options)
})
