import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createTRPCClient, httpLink, TRPCClientError } from '@trpc/client'
import { number, showProgress } from '../packages/cli/progress.ts'
import { openRollouts, type Rollout } from '../packages/cli/rollouts/read-rollouts.ts'
import type { AppRouter } from '../server/api/root.ts'
import { configuredKeys } from '../server/configured-keys.ts'
import type { ErrorData } from '../server/contract/error-reasons.ts'
import type { RewardSpec } from '../server/contract/trainer.ts'
import { freePort, portTaken } from '../testkit/processes/port.ts'
import { type ServiceProcess, startService } from '../testkit/processes/service.ts'
import { type SimulatedServers, startSimulatedServers } from '../testkit/processes/simulated-rm.ts'
import { collectGroups, collectRewards } from './demo/collect.ts'
import { renderReport, type Scored, summarize } from './demo/report.ts'
import { bySteps, type Client, type StepOfRollouts, submitStep } from './demo/submit.ts'

const USAGE = `npm run demo -- [options]

Starts the service and a simulated reward model, scores rollouts by rule and by model, prints a table of the
results, and keeps serving the dashboard.

  --data FILE          rollouts: JSON Lines with one sample of batches.submit per line, the same as CSV, a dump
                       of verl's trainer.rollout_data_dir, or OpenAI's example_model_solutions.jsonl
                       (default: bundled synthetic rollouts)
  --data-source NAME   data source of a dump that does not name one, for example openai/gsm8k
  --port N             port of the service (default: PORT, else 3000)
  --exit               exit after the table

Data is stored in REWARDOPS_DATA_DIR (default: .data/demo).`

const BUNDLED = fileURLToPath(new URL('data/demo-rollouts.jsonl', import.meta.url))

class DemoError extends Error {}

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => stopping.abort(signal))
}

let service: ServiceProcess | undefined
let rm: SimulatedServers | undefined
try {
  await main()
} catch (error) {
  if (stopping.signal.aborted) {
    console.log('\nStopped before the end.')
    process.exitCode = 130
  } else {
    console.error(`\nThe demo failed: ${explain(error)}`)
    process.exitCode = 1
  }
} finally {
  await stopChildren()
}

async function main(): Promise<void> {
  const options = readOptions()
  if (options === null) return
  const { path, bundled } = options

  // The file is read first, so that a bad line is reported before anything is started.
  const file = await openRollouts(path, { dataSource: options.dataSource })
  const rollouts: Rollout[] = []
  for await (const rollout of file.rollouts()) rollouts.push(rollout)
  const steps = bySteps(rollouts, runName(path))
  say(
    'rollouts',
    `${shortPath(path)}${bundled ? ' (bundled, synthetic)' : ''}, ${number(rollouts.length)} samples`,
  )
  for (const note of file.notes) say('', note)

  const port = await choosePort(options.port)
  const dataDir = process.env.REWARDOPS_DATA_DIR || '.data/demo'
  rm = await startSimulatedServers(['--score', 'features'])
  service = await startService({ port, dataDir, signal: stopping.signal })
  const seconds = (service.readyMs / 1000).toFixed(1)
  say('service', `${service.url}, ready after ${seconds} s; log: ${shortPath(service.logPath)}`)
  say(
    'data in',
    process.env.DATABASE_URL
      ? 'the Postgres of DATABASE_URL'
      : `${shortPath(dataDir)}${process.env.REWARDOPS_DATA_DIR ? '' : ' (set REWARDOPS_DATA_DIR to change it)'}`,
  )
  say(
    'reward',
    `${rm.url}, a simulated reward model: linear over features of the texts, no neural network`,
  )
  console.log('')

  const client = connect(service.url)
  await client.servers.register.mutate({
    name: rm.model,
    url: rm.url,
    engine: 'vllm',
    model: rm.model,
  })

  const byRule = await scoreByRule(client, steps)
  const byModel = await score(client, steps, 'by RM  ', `-${rm.model}`, { model: rm.model })
  const scored: Scored[] = []
  for (const [i, step] of steps.entries()) {
    const ruleBatch = byRule?.[i]
    const [rewards, groups, modelRewards] = await Promise.all([
      ruleBatch ? collectRewards(client, ruleBatch) : null,
      ruleBatch ? collectGroups(client, ruleBatch) : null,
      collectRewards(client, byModel[i]!),
    ])
    scored.push({
      samples: step.samples,
      rule: rewards && groups ? { rewards, groups } : null,
      model: { rewards: modelRewards },
    })
  }
  for (const line of renderReport(summarize(scored), rm.model)) console.log(line)

  console.log('')
  if (byRule) say('by rule', `${service.url}/batches/${byRule.at(-1)}`)
  say('by RM', `${service.url}/batches/${byModel.at(-1)}`)
  if (options.exit) return
  console.log(`\nServing ${service.url} until Ctrl-C.`)
  await servedUntilStopped(service, rm)
  console.log('\nStopping.')
}

function readOptions(): {
  path: string
  bundled: boolean
  dataSource: string | undefined
  port: number | null
  exit: boolean
} | null {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const { values } = parseArgs({
    options: { data: text, 'data-source': text, port: text, exit: flag, help: flag },
  })
  if (values.help) {
    console.log(USAGE)
    return null
  }
  const port = values.port ?? process.env.PORT
  if (port && !(/^\d+$/.test(port) && Number(port) <= 65_535)) {
    throw new DemoError(`--port ${port}: expected a port from 0 to 65535`)
  }
  return {
    // npm runs scripts in the project's folder, but a path is relative to the user's folder.
    path: values.data === undefined ? BUNDLED : resolve(process.env.INIT_CWD ?? '.', values.data),
    bundled: values.data === undefined,
    dataSource: values['data-source'],
    port: port ? Number(port) : null,
    exit: values.exit ?? false,
  }
}

async function choosePort(wanted: number | null): Promise<number> {
  const port = wanted ?? 3000
  const host = process.env.HOST || '127.0.0.1'
  if (port !== 0 && !(await portTaken(port, host))) return port
  const free = await freePort(host)
  if (port !== 0) say('port', `${port} is taken; ${free} is used instead`)
  return free
}

function connect(url: string): Client {
  const keys = (process.env.REWARDOPS_API_KEYS ?? '').split(',').filter((one) => one.trim() !== '')
  const { key } = configuredKeys(keys).find(({ role }) => role === 'admin') ?? {}
  return createTRPCClient<AppRouter>({
    links: [
      httpLink({
        url: `${url}/api/trpc`,
        headers: key ? { authorization: `Bearer ${key}` } : {},
        fetch: (input, init) => fetch(input, { ...init, signal: stopping.signal } as RequestInit),
      }),
    ],
  })
}

async function scoreByRule(client: Client, steps: StepOfRollouts[]): Promise<string[] | null> {
  try {
    return await score(client, steps, 'by rule', '-rule', {})
  } catch (error) {
    if (!(error instanceof TRPCClientError)) throw error
    const data = error.data as ErrorData | undefined
    if (data?.reason !== 'unknown_data_source') throw error
    console.log(`by rule   skipped: ${error.message}`)
    return null
  }
}

async function score(
  client: Client,
  steps: StepOfRollouts[],
  label: string,
  runSuffix: string,
  reward: Partial<RewardSpec>,
): Promise<string[]> {
  const total = steps.reduce((sum, step) => sum + step.samples.length, 0)
  const progress = showProgress(label)
  const startedAt = performance.now()
  const batchIds: string[] = []
  let done = 0
  let failed = 0
  progress.update({ done, total, note: 'submitting' })
  for (const step of steps) {
    const batchId = await submitStep(client, step, step.run + runSuffix, reward)
    batchIds.push(batchId)
    for (;;) {
      const summary = await client.batches.wait.query({ batchId, waitMs: 150 })
      const ended = summary.completedAt !== null
      progress.update({
        done: done + summary.scored + summary.failed,
        total,
        note: `${number(summary.groupsCompleted)} of ${number(summary.groups)} groups`,
      })
      if (!ended) continue
      if (summary.status !== 'completed') {
        throw new DemoError(
          `batch ${batchId} is ${summary.status}; see ${service?.url}/batches/${batchId}`,
        )
      }
      done += summary.scored + summary.failed
      failed += summary.failed
      break
    }
  }
  const rate = total / ((performance.now() - startedAt) / 1000)
  const failures = failed > 0 ? `, ${number(failed)} failed` : ''
  progress.end({ done, total, note: `${number(rate)} samples/s${failures}` })
  return batchIds
}

/** @throws DemoError when a child process ends by itself */
async function servedUntilStopped(...children: [ServiceProcess, SimulatedServers]): Promise<void> {
  const [first, second] = children
  const ended = await Promise.race([
    first.ended.then(() => `the service ended; see ${shortPath(first.logPath)}`),
    second.ended.then(() => 'the simulated reward-model server ended'),
    new Promise<null>((resolve) => {
      if (stopping.signal.aborted) resolve(null)
      stopping.signal.addEventListener('abort', () => resolve(null), { once: true })
    }),
  ])
  if (ended !== null) throw new DemoError(ended)
}

/** Stops the service first, so that the reward model can still answer the service's requests in flight. */
async function stopChildren(): Promise<void> {
  const end = await service?.stop()
  await rm?.stop()
  if (end && end.code !== 0 && process.exitCode === undefined) {
    console.error(
      `The service ended with ${end.signal ?? `exit code ${end.code}`} when it was stopped.`,
    )
    process.exitCode = 1
  }
}

function runName(path: string): string {
  const name = path
    .split('/')
    .at(-1)!
    .replace(/\.jsonl?$/, '')
  return name === '' ? 'demo' : name
}

function say(label: string, text: string): void {
  console.log(`${label.padEnd(8)}  ${text}`)
}

function shortPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('../../') ? path : short || '.'
}

function explain(error: unknown): string {
  if (error instanceof TRPCClientError) {
    const data = error.data as ErrorData | undefined
    return data ? `${error.message} (${data.reason})\n${data.hint}` : error.message
  }
  return (error as Error).message
}
