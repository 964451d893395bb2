import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { itInFullRun } from '../testkit/service/full-run.ts'
import { environment } from '../testkit/service/service.ts'
import { generateRollouts } from './generator/generate.ts'
import { RIGHT_ANSWERS } from './generator/questions.ts'
import { RIGHT } from './generator/responses.ts'

// A run takes 3 s on an idle machine, and ten times that while other suites run.
vi.setConfig({ testTimeout: 240_000 })

/** Shared by all runs, so that a later run starts with the data of an earlier one. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rewardops-demo-'))
  await chmod(folder, 0o711)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

interface DemoRun {
  code: number | null
  said: string
}

/** Runs the demo. `onSaid` receives the output so far and a function that signals the process. */
function demo(
  args: string[],
  onSaid?: (said: string, kill: (signal: NodeJS.Signals) => void) => void,
): Promise<DemoRun> {
  const child = spawn(process.execPath, ['examples/demo.ts', ...args], {
    env: environment({ REWARDOPS_DATA_DIR: join(folder, 'data') }),
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      said += chunk
      onSaid?.(said, (signal) => child.kill(signal))
    })
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, said })))
}

test('the bundled rollouts get the expected rewards from the service', async () => {
  const samples = generateRollouts()
  const right = samples.map((sample) => {
    const planted = sample.extraInfo?.planted as never
    return RIGHT.has(planted) || RIGHT_ANSWERS.has(planted)
  })
  const count = (policy: string) =>
    samples.filter((sample, i) => right[i] && sample.extraInfo?.policy === policy).length
  const groups = Map.groupBy(samples.keys(), (i) => samples[i]!.uid)
  const sizes = [...groups.values()].map((members) => members.filter((i) => right[i]).length)

  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const { port } = taken.address() as { port: number }
  const { code, said } = await demo(['--exit', '--port', String(port)])
  taken.close()

  expect(said).toContain(`${port} is taken`)
  expect(said).toContain('512 of 512')
  expect(said).toContain(`${count('step-0')} · ${count('step-100')} correct of 256`)
  expect(said).toContain(
    `64 groups: ${sizes.filter((n) => n === 8).length} with all eight correct, ${sizes.filter((n) => n === 0).length} with none`,
  )
  expect(said).toMatch(/http:\/\/127\.0\.0\.1:\d+\/batches\/b\d+/)
  expect(code).toBe(0)
})

itInFullRun(
  'a data source without a rule is scored by the model alone, and the service runs until it is stopped',
  async () => {
    const path = join(folder, 'own.jsonl')
    const sample = { uid: 'q', dataSource: 'house/poems', prompt: 'A poem?', response: 'Roses.' }
    await writeFile(path, `${JSON.stringify(sample)}\n`)
    let health: number | null = null
    let requested = false
    const { code, said } = await demo(['--port', '0', '--data', path], async (soFar, kill) => {
      const url = /Serving (http:\/\/[\w.:]+) until/.exec(soFar)?.[1]
      if (url === undefined || requested) return
      requested = true
      const answer = await request(`${url}/healthz`)
      health = answer.statusCode
      await answer.body.dump()
      kill('SIGINT')
    })
    expect(said).toContain('skipped:')
    expect(said).toContain('house/poems')
    expect(health).toBe(200)
    expect(code).toBe(0)
  },
)

test('an unreadable file is reported before anything is started', async () => {
  const { code, said } = await demo(['--data', join(folder, 'nowhere.jsonl')])
  expect(said).toContain('no such file')
  expect(said).not.toContain('service')
  expect(code).toBe(1)
})

const solutions = '../shared/data/gsm8k/example_model_solutions.jsonl'
itInFullRun.skipIf(!existsSync(solutions))(
  'OpenAI’s 5,276 solutions get the published verdicts',
  async () => {
    const { code, said } = await demo(['--exit', '--port', '0', '--data', solutions])
    expect(said).toContain('5,276 samples')
    expect(said).toContain('286 · 515 · 458 · 742 correct of 1,319')
    expect(said).toContain('1,319 groups: 156 with all four correct, 432 with none')
    expect(code).toBe(0)
  },
)
