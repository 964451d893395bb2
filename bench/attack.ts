import { chmod, mkdir, rm as removeFolder, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import {
  type Bench,
  benchFolder,
  type Emit,
  openService,
  registerRm,
  runBatch,
  submitBody,
} from './harness.ts'
import { median, pairedDifference, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

export const ATTACK_DEFAULTS = { pairs: 10, level: 'sandbox' }

const SAMPLES = 1_024
/** Number of batches measured per workload in each half of a pair: without an attack, and with one. */
const BATCHES = 12
/** Time limit of a hostile call. An attack lasts this long. */
const ATTACK_MS = 3_000

/** Attacks on processor, memory, processes, disk and the worker. A sample's response is the name of its attack. */
const ATTACKS: Record<string, string> = {
  'endless loop': 'for (;;) {}',
  'eight children that compute': `for (let i = 0; i < 8; i++) spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' })
    await never`,
  'a detached child that computes':
    "spawn('setsid', ['sh', '-c', 'while :; do :; done'], { detached: true, stdio: 'ignore' }).unref(); await never",
  '1,000 children':
    "spawn('sh', ['-c', 'i=0; while [ $i -lt 1000 ]; do sleep 30 & i=$((i + 1)); done; wait'], { stdio: 'ignore' }); await never",
  '4 GB':
    'const all = []; for (let i = 0; i < 128; i++) { all.push(Buffer.alloc(1 << 25, 1)); await pause() } await never',
  'output without end':
    "const line = 'x'.repeat(1 << 20); for (;;) await new Promise((resolve) => process.stdout.write(line, resolve))",
  'a full disk':
    "const block = Buffer.alloc(1 << 24); for (let i = 0; ; i++) { fs.writeFileSync(process.env.TMPDIR + '/' + (i % 400), block); await pause() }",
  'garbage for its worker':
    'for (;;) { fs.writeSync(3, Buffer.from([255, 255, 255, 255, 1, 2, 3])); await pause() }',
}

const HOSTILE = `import * as fs from 'node:fs'
import { spawn } from 'node:child_process'
const never = new Promise((resolve) => setTimeout(resolve, 600_000))
const pause = () => new Promise((resolve) => setTimeout(resolve, 2))
const attacks = {
${Object.entries(ATTACKS)
  .map(([name, code]) => `  ${JSON.stringify(name)}: async () => { ${code} },`)
  .join('\n')}
}
export default async ({ solutionStr }) => { await attacks[solutionStr](); return 1 }
`

/** Measures the rate of one run's batches, with and without another run's function attacking the machine. */
export async function measureAttack(
  emit: Emit,
  options: { pairs: number; level: string },
): Promise<void> {
  const folder = await benchFolder()
  const functions = join(folder, 'functions')
  await mkdir(functions)
  await chmod(functions, 0o755)
  await writeFile(join(functions, 'hostile.ts'), HOSTILE)
  const rm = await startSimulatedServers(['--running', '100000', '--latency', '20'])
  const opened = await openService({
    dataDir: join(folder, 'data'),
    env: {
      REWARDOPS_PAGES: '0',
      REWARDOPS_FUNCTIONS_DIR: functions,
      REWARDOPS_FUNCTION_ISOLATION: options.level,
    },
  })
  try {
    await registerRm(opened.api, 'bench', rm)
    const bench: Bench = { ...opened, rm }
    const rates = new Map(
      ['rule', 'model'].map((name) => [name, { alone: [] as number[], attacked: [] as number[] }]),
    )
    let step = 0
    const half = async (side: 'alone' | 'attacked') => {
      for (const [workload, { [side]: list }] of rates) {
        const perSecond: number[] = []
        for (let i = 0; i < BATCHES; i++) {
          step++
          const samples = makeSamples({ ...USUAL_SHAPE, samples: SAMPLES }, step)
          const reward = workload === 'rule' ? {} : { model: rm.model }
          perSecond.push((await runBatch(bench, submitBody(step, samples, reward))).perSecond)
        }
        list.push(median(perSecond))
      }
    }
    await half('alone')
    for (const { alone } of rates.values()) alone.splice(0)
    let attacks = 0
    for (let pair = 0; pair < options.pairs; pair++) {
      const order =
        pair % 2 === 0 ? (['alone', 'attacked'] as const) : (['attacked', 'alone'] as const)
      for (const side of order) {
        const attack = side === 'attacked' ? startAttack(opened.api) : null
        await attack?.begun
        await half(side)
        attacks += (await attack?.stop()) ?? 0
      }
    }
    for (const [workload, { alone, attacked }] of rates) {
      const { medianPercent, lowPercent, highPercent } = pairedDifference(
        alone.map((theirs, at) => ({ ours: attacked[at] as number, theirs })),
      )
      emit({
        ...{
          name: 'attack',
          level: options.level,
          workload,
          samples: SAMPLES,
          pairs: alone.length,
        },
        alonePerSecond: rounded(median(alone)),
        attackedPerSecond: rounded(median(attacked)),
        medianPercent: rounded(medianPercent, 1),
        lowPercent: lowPercent === null ? null : rounded(lowPercent, 1),
        highPercent: highPercent === null ? null : rounded(highPercent, 1),
        attacks,
      })
    }
  } finally {
    await opened.close()
    await rm.stop()
    await removeFolder(folder, { recursive: true, force: true })
  }
}

/** Submits attacks, one batch after another, until `stop` is called. `stop` returns the number of submitted attacks. */
function startAttack(api: Bench['api']) {
  const names = Object.keys(ATTACKS)
  let stopped = false
  let attacks = 0
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  const loop = (async () => {
    for (let step = 1; !stopped; step++) {
      const { batchId } = await api.batches.submit.mutate({
        ...{ run: 'hostile', step },
        reward: { function: { path: 'hostile.ts' }, timeoutMs: ATTACK_MS, maxAttempts: 1 },
        samples: names.map((response, i) => ({
          uid: `a${i}`,
          dataSource: 'attack',
          prompt: 'p',
          response,
        })),
      })
      attacks += names.length
      // The attacks' processes take about a second to start.
      await new Promise((done) => setTimeout(done, 1_000))
      resolve()
      while (!stopped) {
        const { completedAt, scored } = await api.batches.wait.query({
          batchId,
          waitMs: 500,
        })
        if (completedAt === null) continue
        if (scored > 0) throw new Error(`${batchId}: an attack of ${scored} was scored`)
        break
      }
      if (stopped) await api.batches.cancel.mutate({ batchId })
    }
  })()
  return {
    begun: Promise.race([begun, loop]),
    async stop() {
      stopped = true
      await loop
      return attacks
    },
  }
}
