import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freePort } from '../testkit/processes/port.ts'
import { waitFor } from '../testkit/service/wait-for.ts'

const ROOT = join(import.meta.dirname, '..')
const MAX_INSTALLED_MB = 700
const registry = spawnSync('npm', ['ping', '--loglevel=error', '--fetch-retries=0'])

let folder: string
let dist: string
let url: string
let service: ChildProcess | undefined

/** The environment of a user: without this checkout's programs, which npm and vitest add to the PATH. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_|VITEST|INIT_CWD$|REWARDOPS_)/i.test(name),
  ),
) as NodeJS.ProcessEnv
env.PATH = (process.env.PATH ?? '')
  .split(':')
  .filter((entry) => !entry.includes('node_modules'))
  .join(':')

const run = (cwd: string, file: string, ...args: string[]) =>
  execFileSync(file, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

function emptyFolder(name: string): string {
  const path = join(folder, name)
  mkdirSync(path)
  return path
}

beforeAll(async () => {
  if (registry.status !== 0) return
  folder = mkdtempSync(join(tmpdir(), 'rewardops-packed-'))
  dist = join(folder, 'dist')
  execFileSync(process.execPath, [join(ROOT, 'scripts/run.mjs'), 'pack', dist], { stdio: 'pipe' })
  const home = emptyFolder('service')
  run(home, 'npm', 'install', '--ignore-scripts', ...globSync(join(dist, 'rewardops-[0-9]*.tgz')))
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  service = spawn(join(home, 'node_modules/.bin/rewardops'), ['start'], {
    cwd: home,
    env: { ...env, PORT: `${port}` },
    stdio: 'ignore',
  })
  await waitFor(
    'the installed service',
    async () => {
      const answer = await fetch(`${url}/healthz`).catch(() => null)
      return answer?.status === 200
    },
    120_000,
  )
}, 1_200_000)

afterAll(async () => {
  if (service && service.exitCode === null) {
    service.kill('SIGTERM')
    await once(service, 'exit')
  }
  if (folder) rmSync(folder, { recursive: true, force: true })
}, 60_000)

const inRegistry = it.skipIf(registry.status !== 0)

inRegistry('the installed service is small and keeps its data in the caller’s folder', () => {
  const home = join(folder, 'service')
  const kb = Number.parseInt(run(home, 'du', '-sk', 'node_modules'), 10)
  expect(kb / 1024).toBeLessThan(MAX_INSTALLED_MB)
  expect(existsSync(join(home, '.data'))).toBe(true)
  expect(existsSync(join(home, 'node_modules/rewardops/THIRD-PARTY-NOTICES.txt'))).toBe(true)
})

inRegistry('the installed service answers with its pages and their files', async () => {
  for (const path of ['/', '/runs', '/servers', '/settings']) {
    const page = await fetch(url + path, { headers: { accept: 'text/html' } })
    expect(page.status, path).toBe(200)
    const files = new Set((await page.text()).match(/\/_next\/static\/[^"\\]+\.(js|css)/g))
    expect(files.size).toBeGreaterThan(0)
    for (const file of files) expect((await fetch(url + file)).status, file).toBe(200)
  }
})

inRegistry(
  'a TypeScript trainer runs with the installed client',
  () => {
    const project = emptyFolder('typescript')
    writeFileSync(join(project, 'package.json'), '{"type":"module"}')
    run(project, 'npm', 'install', ...globSync(join(dist, 'rewardops-{client,math-verify}-*.tgz')))
    writeFileSync(
      join(project, 'trainer.js'),
      `import { createRewardOpsClient } from '@rewardops/client'
     import { verifyResponse } from '@rewardops/math-verify'
     const rewards = createRewardOpsClient({ url: '${url}' })
     const samples = ['#### 42', '#### 41'].map((response) => (
       { uid: 'q-1', dataSource: 'openai/gsm8k', prompt: '6 * 7?', response, groundTruth: '42' }))
     const pipeline = rewards.computeRewardPipeline({ run: 'ts', step: 1, samples })
     for await (const { results } of pipeline.get(2)) console.log(results.map(({ score }) => score).join())
     console.log(verifyResponse('$\\\\boxed{42}$', '42').correct)`,
    )
    expect(run(project, 'node', 'trainer.js')).toBe('1,0\ntrue\n')
  },
  300_000,
)

function python(version: string): string | undefined {
  const ofPyenv = globSync(join(homedir(), `.pyenv/versions/${version}.*/bin/python3`))
  return [`python${version}`, ...ofPyenv].find(
    (file) => spawnSync(file, ['-c', 'import venv'], { env }).status === 0,
  )
}

for (const version of ['3.9', '3.11']) {
  const file = python(version)
  it.skipIf(registry.status !== 0 || file === undefined)(
    `a trainer on Python ${version} runs with the wheel and the sdist`,
    () => {
      const project = emptyFolder(`python-${version}`)
      run(project, file as string, '-m', 'venv', 'venv')
      writeFileSync(
        join(project, 'trainer.py'),
        `from rewardops import RewardOps
samples = [dict(uid="q-1", data_source="openai/gsm8k", prompt="6 * 7?", response=response, ground_truth="42")
           for response in ("#### 42", "#### 41")]
with RewardOps("${url}", run="python-${version}") as client:
    scores = client.compute_rm_score(samples, group_size=2, step=1)
    print([float(score) for score in scores.score])
`,
      )
      for (const packed of globSync(join(dist, '*.{whl,tar.gz}'))) {
        run(project, 'venv/bin/pip', 'install', '-q', '--force-reinstall', packed)
        expect(run(project, 'venv/bin/python', 'trainer.py'), packed).toBe('[1.0, 0.0]\n')
      }
    },
    300_000,
  )
}

inRegistry(
  'a second build of the clients gives equal files',
  () => {
    const again = join(folder, 'again')
    execFileSync(process.execPath, [join(ROOT, 'scripts/run.mjs'), 'pack', again], {
      stdio: 'pipe',
    })
    const files = globSync('*', { cwd: dist }).filter(
      (file) => !/^rewardops-[\d.]+\.tgz$/.test(file),
    )
    expect(files).toHaveLength(4)
    for (const file of files) {
      expect(statSync(join(again, file)).size, file).toBeGreaterThan(0)
      expect(readFileSync(join(again, file)).equals(readFileSync(join(dist, file))), file).toBe(
        true,
      )
    }
  },
  600_000,
)
