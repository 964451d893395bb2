import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import { padding, rollouts, type Sample, type Submit } from '../../testkit/service/rollouts.ts'
import { environment, Service } from '../../testkit/service/service.ts'
import { ServiceLog } from '../../testkit/service/service-log.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import { runningEmbeddedUrl } from '../store/postgres/embedded.ts'
import { inspectProcess } from '../store/postgres/processes.ts'

const WORKER = fileURLToPath(new URL('../worker/start.ts', import.meta.url))

const folder = mkdtempSync(join(tmpdir(), 'rewardops-own-'))
let service: Service

beforeAll(async () => {
  service = await Service.start({
    env: {
      REWARDOPS_WORKERS: '1',
      REWARDOPS_FUNCTIONS_DIR: folder,
      REWARDOPS_FUNCTION_MEMORY_MB: '256',
    },
  })
})

afterAll(() => stopCleanly(service, () => rmSync(folder, { recursive: true, force: true })))

function file(path: string, text: string): string {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
  return path
}

const submit = (reward: Submit['reward'], samples: Sample[] = rollouts(16)) =>
  service.api.batches.submit.mutate({ run: 'own', step: 1, samples, reward })
const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const results = (batchId: string) => service.api.batches.results.query({ batchId })
const detail = (id: string) => service.api.samples.get.query({ id })

describe('a reward function', () => {
  it('is listed by its file; type declarations and packages are not', async () => {
    const path = file('listed/one.ts', 'export const score = () => 1')
    file('listed/one.d.ts', 'export declare const score: () => number')
    file('listed/node_modules/two.js', 'export default () => 2')
    const { files } = (await service.api.rewards.list.query()).functions
    const listed = files.filter((one) => one.path.startsWith('listed/'))
    expect(listed).toMatchObject([{ path, exports: ['score'], problem: null }])
  })

  it('scores a batch by path, name and kwargs, and the batch reports its version', async () => {
    const path = file(
      'lengths.ts',
      `import { countOf } from './lib/count.ts'
       export async function byLength({ solutionStr, per, data_source }: Record<string, any>) {
         return { score: countOf(solutionStr) / per, data_source }
       }`,
    )
    file('lib/count.ts', 'export const countOf = (text: string): number => text.length')
    const samples = rollouts(16)
    const { batchId } = await submit(
      { function: { path, name: 'byLength', kwargs: { per: 10 } } },
      samples,
    )
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      scored: 16,
      rewardName: 'lengths.ts:byLength',
      rewardVersion: expect.stringMatching(/^[0-9a-f]{12} lengths\.ts$/),
    })
    const { score, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual(samples.map(({ response }) => response.length / 10))
    expect(rewardExtraInfo.data_source).toEqual(samples.map(() => 'openai/gsm8k'))
  })

  it('scores single samples', async () => {
    const path = file('single.ts', 'export default ({ responseLength }) => responseLength')
    const score = (responseLength: number) =>
      service.api.samples.score.mutate({
        run: 'own',
        step: 2,
        reward: { function: { path } },
        sample: { ...rollouts(1)[0]!, responseLength },
      })
    const answers = await Promise.all([1, 2, 3, 4, 5].map(score))
    expect(answers.map((answer) => answer.score)).toEqual([1, 2, 3, 4, 5])
  })

  it('reports a failure to the caller of a single sample, with the detail and its version', async () => {
    const path = file('single-fails.ts', 'export default () => { throw { code: 7 } }')
    const answer = await service.api.samples.score.mutate({
      run: 'own',
      step: 3,
      reward: { function: { path } },
      sample: rollouts(1)[0]!,
    })
    expect(answer).toMatchObject({
      status: 'failed',
      reason: 'function_error',
      score: null,
      detail: expect.stringContaining('it threw {"code":7}'),
      rewardVersion: expect.stringMatching(/^[0-9a-f]{12} single-fails\.ts$/),
    })
    expect(await service.api.samples.get.query({ id: answer.id })).toMatchObject({
      batchId: answer.batchId,
      reason: 'function_error',
    })
  })

  itInFullRun('can be a component of a composite reward, beside a rule', async () => {
    const path = file('part.ts', 'export const compute_score = async () => 0.25')
    const { batchId } = await submit({
      combine: [
        { name: 'right', reward: {} },
        { name: 'mine', weight: 2, reward: { function: { path } } },
      ],
    })
    expect(await wait(batchId)).toMatchObject({ scored: 16 })
    expect((await results(batchId)).score).toEqual(
      Array.from({ length: 16 }, (_, i) => (i % 2 === 0 ? 1.5 : 0.5)),
    )
  })

  it('calls reward models and judges through the router of its worker', async () => {
    const scorer = await SimulatedServer.start({ model: 'scorer' })
    const judge = await SimulatedServer.start({ dialect: 'chat', model: 'judge' })
    try {
      await service.api.servers.register.mutate({ name: 'scorer-0', url: scorer.url })
      await service.api.servers.register.mutate({
        name: 'judge-0',
        url: judge.url,
        engine: 'openai',
        kind: 'generative',
      })
      const path = file(
        'asking.ts',
        `export default async ({ prompt, solutionStr }, { router, rewardRouterAddress }) => {
           const score = await router.score({ prompt, response: solutionStr }, { model: 'scorer' })
           const reply = await router.chat({
             model: 'judge',
             messages: [{ role: 'user', content: 'Rate it from 1 to 10 as [[n]]: ' + solutionStr }],
           })
           const models = await (await fetch('http://' + rewardRouterAddress + '/v1/models')).json()
           return { score, said: reply.content, models: models.data.map((model) => model.id).sort() }
         }`,
      )
      const { batchId } = await submit({ function: { path } })
      expect(await wait(batchId)).toMatchObject({ scored: 16, failed: 0 })
      const own = await submit({ model: 'scorer' })
      await wait(own.batchId)
      const { score, rewardExtraInfo } = await results(batchId)
      expect(score).toEqual((await results(own.batchId)).score)
      for (const said of rewardExtraInfo.said as string[]) expect(said).toMatch(/\[\[\d+\]\]/)
      expect(rewardExtraInfo.models?.[0]).toEqual(['judge', 'scorer'])
    } finally {
      await scorer.close()
      await judge.close()
    }
  })

  it('can be tested with one sample without storing it', async () => {
    const path = file('tried.ts', 'export default async ({ bonus }) => ({ score: bonus, why: 3 })')
    const sample = { dataSource: 'mine', prompt: 'Q', response: 'A' }
    const reward = { function: { path, kwargs: { bonus: 2 } } }
    expect(await service.api.rewards.try.mutate({ sample, reward })).toMatchObject({
      rewardName: 'tried.ts',
      end: { ok: true, score: 2 },
      steps: [{ kind: 'function', path: 'tried.ts', extra: { score: 2, why: 3 } }],
    })
    expect(await service.sql("select hash from function_source where path = 'tried.ts'")).toEqual(
      [],
    )
  })

  it('scores a batch in the version that it had when the batch was accepted', async () => {
    const path = file('edited.ts', 'export default () => 1')
    const open = { run: 'own', step: 3, open: true, reward: { function: { path } } }
    const first = await service.api.batches.submit.mutate({ ...open, samples: rollouts(8) })
    file('edited.ts', 'export default () => 2')
    const second = await submit({ function: { path } })
    await wait(second.batchId)
    file('edited.ts', 'export default () => {')
    await service.api.batches.append.mutate({
      batchId: first.batchId,
      startIndex: 8,
      samples: rollouts(8, 8, 'later'),
    })
    await service.api.batches.close.mutate({ batchId: first.batchId })
    const before = await wait(first.batchId)
    expect((await results(first.batchId)).score).toEqual(Array(16).fill(1))
    expect((await results(second.batchId)).score).toEqual(Array(16).fill(2))
    const after = await service.api.batches.get.query({ batchId: second.batchId })
    expect(before.rewardVersion).not.toBe(after.rewardVersion)
    for (const { batchId, rewardVersion } of [before, after]) {
      expect(await detail(`${batchId}-9`)).toMatchObject({ rewardVersion })
    }
    const [stored] = await service.sql<{ n: number }>(
      "select count(*)::int as n from function_source where path = 'edited.ts'",
    )
    expect(stored?.n).toBe(2)
  })

  it('is refused with the reason if it is invalid, and nothing is stored', async () => {
    const counts = async () =>
      service.sql(
        'select (select count(*) from batch) as b, (select count(*) from function_source) as f',
      )
    const before = await counts()
    const path = file('several.ts', 'export const one = () => 1\nexport const two = () => 2')
    await expect(submit({ function: { path, name: 'tow' } })).rejects.toMatchObject({
      status: 422,
      data: { reason: 'invalid_function', hint: expect.stringContaining('one, two') },
    })
    const broken = file('broken.ts', 'throw new Error("no data")')
    await expect(submit({ function: { path: broken } })).rejects.toMatchObject({
      data: { reason: 'invalid_function' },
    })
    for (const field of ['ground_truth', 'messages']) {
      const named = { function: { path, name: 'one', kwargs: { [field]: 1 } } }
      await expect(submit(named)).rejects.toMatchObject({ data: { reason: 'invalid_kwargs' } })
    }
    expect(await counts()).toEqual(before)
  })

  itInFullRun('scores a batch whose body the ingest thread parsed', async () => {
    const path = file('large.ts', 'export default ({ solutionStr }) => solutionStr.length')
    const samples = rollouts(8).map((one) => ({ ...one, response: padding(200_000) }))
    const { batchId } = await submit({ function: { path } }, samples)
    expect(await wait(batchId)).toMatchObject({ scored: 8, mean: 200_000 })
  })

  itInFullRun('is run in separate processes by the manager remote', async () => {
    const path = file(
      'remote.ts',
      `let inside = 0
       export default async () => {
         inside++
         await new Promise((done) => setTimeout(done, 5))
         return { score: inside--, pid: process.pid }
       }`,
    )
    const { batchId } = await submit({
      manager: 'remote',
      function: { path },
      kwargs: { num_workers: 2 },
    })
    expect(await wait(batchId)).toMatchObject({ scored: 16, mean: 1 })
    const byRule = await submit({ manager: 'remote' })
    expect(await wait(byRule.batchId)).toMatchObject({ scored: 16, mean: 0.5 })
  })

  it('can be a manager class around the rule of the data source', async () => {
    const path = file(
      'manager.ts',
      `export class Halving {
         constructor({ kwargs, computeScore }) { Object.assign(this, { kwargs, computeScore }) }
         async run_single(sample) {
           const { score, ...extra } = await this.computeScore(sample)
           return { reward_score: score * this.kwargs.factor, reward_extra_info: { ...extra, raw: score } }
         }
       }`,
    )
    const manager = { path, name: 'Halving', kwargs: { factor: 0.5 } }
    const { batchId } = await submit({ manager })
    expect(await wait(batchId)).toMatchObject({ scored: 16, mean: 0.25 })
    expect((await results(batchId)).rewardExtraInfo.raw).toEqual(
      Array.from({ length: 16 }, (_, i) => (i % 2 === 0 ? 1 : 0)),
    )
    await expect(submit({ manager }, [{ ...rollouts(1)[0]!, dataSource: 'x' }])).rejects.toThrow(
      'unknown_data_source',
    )
  })
})

describe('a function that crashes or blocks its process', () => {
  const TEXT = `
    const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
    const hold = []
    export default async ({ solutionStr, extraInfo: { what } }, { log }) => {
      if (what !== undefined) log.info('in process ' + process.pid)
      if (what === 'endless loop') for (;;) {}
      await sleep(20)
      if (what === 'endless loop after an await') for (;;) {}
      if (what === '4 GB of buffers') for (let i = 0; i < 256; i++) hold.push(Buffer.alloc(16 << 20, 1))
      if (what === 'exit') process.exit(1)
      if (what === 'uncaught error') {
        setTimeout(() => { throw new Error('much later') }, 20)
        await sleep(60_000)
      }
      return solutionStr.length
    }`

  it.each<[string, string]>([
    ['exit', 'function_error'],
    ...inFullRun<[string, string]>(
      ['endless loop after an await', 'timeout'],
      ['endless loop', 'timeout'],
      ['4 GB of buffers', 'function_error'],
      ['uncaught error', 'function_error'],
    ),
  ])(
    '%s: only its sample fails, another batch continues, and the process ends',
    async (what, reason) => {
      const path = file(`${what.replaceAll(' ', '-')}.ts`, TEXT)
      const samples = rollouts(64, 8, what)
      samples[41] = { ...samples[41]!, extraInfo: { what } }
      const timeoutMs = what.startsWith('endless') ? 2_000 : 30_000
      const from = service.log.lines.length
      const { batchId } = await submit({ function: { path }, timeoutMs }, samples)
      const id = `${batchId}-41`
      const inProcess = await waitFor('the start of the faulty call', () =>
        service.log.find('in process', from).find(({ raw }) => raw.includes(id)),
      )
      const pid = Number(/in process (\d+)/.exec(inProcess.msg)?.[1])
      const byRule = await submit({}, rollouts(512))
      expect(await wait(byRule.batchId)).toMatchObject({ scored: 512 })
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 63, failed: 1 })
      const { score, status } = await results(batchId)
      expect(status.flatMap((one, i) => (one === 'failed' ? [i] : []))).toEqual([41])
      expect(score).toEqual(samples.map(({ response }, i) => (i === 41 ? null : response.length)))
      const culprit = await detail(id)
      expect(culprit).toMatchObject({ reason, score: null })
      const problem = culprit.attemptLog.at(-1)?.detail
      expect(problem).toContain(what === 'uncaught error' ? 'uncaught: much later' : id)
      await waitFor('the end of the process', () => inspectProcess(pid)?.running !== true)
      if (what !== 'uncaught error') {
        expect(service.log.find('was ended', from).some(({ raw }) => raw.includes(id))).toBe(true)
      }
    },
  )
})

describe('an endless loop without a time limit', () => {
  itInFullRun('ends with its worker, and with its batch', async () => {
    const path = file(
      'patient.ts',
      `export default (_, { log }) => {
         log.info('in process ' + process.pid)
         for (;;) {}
       }`,
    )
    const inProcess = async (from: number) => {
      const line = await waitFor('a process', () => service.log.find('in process', from)[0])
      return {
        pid: Number(/in process (\d+)/.exec(line.msg)?.[1]),
        worker: (JSON.parse(line.raw) as { pid: number }).pid,
      }
    }
    const gone = (pid: number) => waitFor('its end', () => inspectProcess(pid)?.running !== true)
    let from = service.log.lines.length
    const { batchId } = await submit({ function: { path } }, rollouts(1))
    const first = await inProcess(from)
    from = service.log.lines.length
    process.kill(first.worker, 'SIGKILL')
    await gone(first.pid)
    const second = await inProcess(from)
    expect(second.pid).not.toBe(first.pid)
    await service.api.batches.cancel.mutate({ batchId })
    await gone(second.pid)
    expect(await wait(batchId)).toMatchObject({ status: 'cancelled' })
    await service.healthy()
  })
})

describe('a worker without the functions folder', () => {
  itInFullRun('reads the source from the database only', async () => {
    const away = mkdtempSync(join(tmpdir(), 'rewardops-away-'))
    const other = await Service.start({
      env: { REWARDOPS_FUNCTIONS_DIR: folder, REWARDOPS_WORKERS: '0' },
    })
    const log = new ServiceLog()
    const worker = spawn(process.execPath, [WORKER], {
      cwd: away,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: environment({
        DATABASE_URL: runningEmbeddedUrl(other.dataDir) as string,
        REWARDOPS_SECRETS_KEY_FILE: `${other.dataDir}/secrets.key`,
      }),
    })
    log.read(worker.stderr)
    try {
      const path = file('away.ts', `import { n } from './away/n.ts'\nexport default async () => n`)
      file('away/n.ts', 'export const n: number = 11')
      const { batchId } = await other.api.batches.submit.mutate({
        run: 'own',
        step: 1,
        samples: rollouts(16),
        reward: { function: { path } },
      })
      expect(await other.api.batches.wait.query({ batchId, waitMs: 60_000 })).toMatchObject({
        scored: 16,
        mean: 11,
      })
      expect(readdirSync(join(away, '.data/functions'))).toHaveLength(1)
    } finally {
      worker.kill('SIGTERM')
      if (worker.exitCode === null) await once(worker, 'exit')
      await other.stop().finally(() => other.destroy())
      rmSync(away, { recursive: true, force: true })
    }
    expect(log.problems()).toEqual([])
  })
})
