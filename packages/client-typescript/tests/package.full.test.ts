import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildPackage } from '../../build.mjs'

const root = join(import.meta.dirname, '../../..')
let project: string

beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), 'rewardops-consumer-'))
  const installed = join(project, 'node_modules/@rewardops/client')
  mkdirSync(installed, { recursive: true })
  cpSync(join(root, 'packages/client-typescript/package.json'), join(installed, 'package.json'))
  await buildPackage(join(root, 'packages/client-typescript'), join(installed, 'dist'))
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  for (const name of Object.keys(dependencies)) {
    const at = join(project, 'node_modules', name)
    mkdirSync(dirname(at), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), at)
  }
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'main.ts'), CONSUMER)
  writeFileSync(
    join(project, 'run.mjs'),
    `import { createRewardOpsClient, RewardOpsClientError, RewardPipeline } from '@rewardops/client'
     try { createRewardOpsClient({ url: 'nowhere' }) } catch (error) {
       console.log(error instanceof RewardOpsClientError, error.reason, typeof RewardPipeline)
     }`,
  )
})

afterAll(() => {
  rmSync(project, { recursive: true, force: true })
})

describe('the package', () => {
  it.each([
    ['bundler', 'esnext'],
    ['nodenext', 'nodenext'],
  ])('type-checks with moduleResolution %s, including the router', (moduleResolution, module) => {
    const config = join(project, `tsconfig.${moduleResolution}.json`)
    const compilerOptions = {
      ...{ strict: true, target: 'es2022', noEmit: true, types: [], skipLibCheck: false },
      ...{ module, moduleResolution, lib: ['ESNext', 'DOM', 'DOM.Iterable'] },
    }
    writeFileSync(config, JSON.stringify({ compilerOptions, files: ['main.ts'] }))
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout } = spawnSync(process.execPath, [tsc, '-p', config, '--pretty', 'false'], {
      encoding: 'utf8',
    })
    // Errors in tRPC's declarations are ignored, because those declarations need types of Node and of a WebSocket
    // library, which are not loaded here.
    const ours = stdout
      .split('\n')
      .filter((line) => line.includes('error') && !line.includes('@trpc'))
    expect(ours).toEqual([])
  })

  it('runs without any module of the service', () => {
    const { stdout, stderr } = spawnSync(process.execPath, ['run.mjs'], {
      cwd: project,
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(stdout.trim()).toBe('true invalid_url function')
    const dist = join(project, 'node_modules/@rewardops/client/dist')
    expect(readdirSync(dist).sort()).toEqual(['index.js', 'types'])
    const code = readFileSync(join(dist, 'index.js'), 'utf8')
    const imports = [...code.matchAll(/^import .* from "(.*)"/gm)].map((match) => match[1])
    expect(imports.sort()).toEqual(['@trpc/client', '@trpc/server/observable'])
    const files = readdirSync(join(dist, 'types'), { recursive: true }) as string[]
    expect(files.filter((file) => /\.\w+$/.test(file) && !file.endsWith('.d.ts'))).toEqual([])
    expect(files.filter((file) => /server\/(batches|store)/.test(file))).toEqual([])
  })
})

const CONSUMER = `
import { type AppRouter, createRewardOpsClient, type RewardOpsInputs } from '@rewardops/client'

const rewards = createRewardOpsClient({ url: 'http://127.0.0.1:3000', apiKey: null })
const batch: RewardOpsInputs['batches']['submit'] = {
  run: 'r',
  step: 1,
  samples: [{ uid: 'a', dataSource: 'openai/gsm8k', prompt: 'p', response: 'r' }],
}
for await (const chunk of rewards.computeRewardPipeline(batch).get(256)) {
  const scores: (number | null)[] = chunk.results.map((result) => result.score)
  // @ts-expect-error a position may be null
  const position: number = chunk.results[0]!.position
  void [scores, position]
}
const { accepted } = await rewards.rescore({ batchId: 'b1', reward: { model: 'm' } })
accepted satisfies number
// @ts-expect-error a batch has a step
await rewards.submit({ run: 'r', samples: [] })
const [server] = await rewards.api.servers.list.query()
server?.state satisfies string | undefined
// @ts-expect-error there is no such procedure
await rewards.api.servers.nothing.query()
export type Procedures = keyof AppRouter['_def']['procedures']
const named: Procedures = 'batches'
void named
`
