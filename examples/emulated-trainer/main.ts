import { mkdtemp, rm as remove } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { predict, type Workload } from '../../server/planner/overlap.ts'
import { freePort } from '../processes/port.ts'
import { startReferenceRmProcess } from '../processes/reference-rm.ts'
import { type ServiceProcess, startService } from '../processes/service.ts'
import { type Behaviour, delayOfDraw, PLAIN_BEHAVIOUR } from '../reference-rm/behaviour.ts'
import { tailHash } from '../reference-rm/score.ts'
import { type EmulationOptions, type Run, readOptions } from './options.ts'
import { type Compared, tableOf } from './report.ts'
import { emulate, type Rollouts } from './trainer.ts'

const SEED = 7
/** In flight of a server without a limit of its own to a run. */
const UNLIMITED = 100_000

/** Runs every strategy over one service and one reward-model server, and prints what each took beside what was predicted. */
async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (options === null) return
  const folder = await mkdtemp(join(tmpdir(), 'rewardops-emulated-'))
  const rewards = rewardsOf(options)
  const rm = await startReferenceRmProcess([
    ...['--score', 'hash', '--seed', String(SEED)],
    ...['--delay', `uniform:${rewards.fromMs},${rewards.toMs}`],
  ])
  let service: ServiceProcess | undefined
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // What was started for this must not outlive it.
    process.once(signal, () => {
      void Promise.all([service?.stop(), rm.stop()])
        .then(() => remove(folder, { recursive: true, force: true }))
        .finally(() => process.exit(1))
    })
  }
  try {
    if (options.url === null) {
      service = await startService({
        port: await freePort(),
        dataDir: join(folder, 'data'),
        env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined, HOST: undefined },
      })
    }
    const url = options.url ?? (service as ServiceProcess).url
    const compared: Compared[] = []
    for (const run of options.runs) {
      await register(url, rm.url, rm.model, run.concurrency ?? UNLIMITED)
      const name = `emulated-${run.name}-${Date.now().toString(36)}`
      const emulated = await emulate(url, rm.model, name, run, options, (step) =>
        rolloutsOf(step, options),
      )
      const predicted = predict(workloadOf(options, run), run.strategy)
      compared.push({ emulated, predicted })
      const { spans: _, ...told } = emulated
      if (options.json) {
        const { stepMs, steadyMs, boundMs } = predicted
        console.log(JSON.stringify({ ...told, predicted: { stepMs, steadyMs, boundMs } }))
      } else {
        const steps = `${(told.stepMs / 1_000).toFixed(1)} s a step`
        console.error(`${run.name}: ${steps}, ${(told.waitMs / 1_000).toFixed(1)} s of waiting`)
      }
    }
    if (!options.json) console.log(tableOf(compared, options))
  } finally {
    await service?.stop()
    await rm.stop()
    await remove(folder, { recursive: true, force: true })
  }
}

function rewardsOf({ rewardMs, scale }: EmulationOptions): { fromMs: number; toMs: number } {
  return { fromMs: rewardMs.fromMs / scale, toMs: rewardMs.toMs / scale }
}

/** The same texts for every strategy, and so the same rewards and delays. */
function rolloutsOf(step: number, { prompts, responses }: EmulationOptions): Rollouts {
  return Array.from({ length: prompts * responses }, (_, i) => {
    const prompt = Math.floor(i / responses)
    return {
      uid: `p${prompt}`,
      dataSource: 'emulated',
      prompt: `Question ${prompt} of step ${step}.`,
      response: responseOf(step, i),
    }
  })
}

function responseOf(step: number, index: number): string {
  return `Emulated rollout ${index} of step ${step}: no model wrote it.`
}

/** The reward-model server draws its delays from the texts, so what is predicted is computed with the very same ones. */
function workloadOf(options: EmulationOptions, run: Run): Workload {
  const behaviour: Behaviour = { ...PLAIN_BEHAVIOUR, delay: rewardsOf(options), seed: SEED }
  const { phases, steps, prompts, responses, miniBatches, scale } = options
  return {
    phases,
    steps,
    miniBatches,
    groups: prompts,
    groupSize: responses,
    concurrency: run.concurrency,
    rewardMs: (step, i) => delayOfDraw(behaviour, tailHash(responseOf(step, i))) * scale,
  }
}

async function register(
  url: string,
  rmUrl: string,
  model: string,
  maxInFlight: number,
): Promise<void> {
  const answer = await fetch(`${url}/api/trpc/servers.register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'emulated', url: rmUrl, engine: 'vllm', model, maxInFlight }),
  })
  if (!answer.ok) throw new Error(`the server was not registered: ${await answer.text()}`)
}

main().catch((error: Error) => {
  console.error(error.message)
  process.exitCode = 1
})
