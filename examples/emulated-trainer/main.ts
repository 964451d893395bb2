import { mkdtemp, rm as remove } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../testkit/processes/port.ts'
import { type ServiceProcess, startService } from '../../testkit/processes/service.ts'
import { startSimulatedServers } from '../../testkit/processes/simulated-rm.ts'
import { CONFIGURATIONS } from './comparison.ts'
import { type Compared, conduct, type Laboratory, RM_OPTIONS, warmUp } from './laboratory.ts'
import { type EmulationOptions, readOptions } from './options.ts'
import { comparisonOf, errorPercent, tableOf } from './report.ts'
import { keepResult, readResults } from './results.ts'

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2))
  if (options === null) return
  const folder = await mkdtemp(join(tmpdir(), 'rewardops-emulated-'))
  const rm = await startSimulatedServers(RM_OPTIONS)
  let service: ServiceProcess | undefined
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= (async () => {
      await Promise.all([service?.stop(), rm.stop()])
      await remove(folder, { recursive: true, force: true })
    })()
    return stopping
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => void stop().finally(() => process.exit(1)))
  }
  try {
    if (options.url === null) {
      service = await startService({
        port: await freePort(),
        dataDir: join(folder, 'data'),
        env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined, HOST: undefined },
      })
    }
    const laboratory = { url: options.url ?? (service as ServiceProcess).url, rm }
    await warmUp(laboratory)
    await (options.compare ? compare(laboratory, options) : experiment(laboratory, options))
  } catch (error) {
    // After a signal, failures are a consequence of the stop.
    if (stopping === undefined) throw error
  } finally {
    await stop()
  }
}

async function experiment(laboratory: Laboratory, options: EmulationOptions): Promise<void> {
  const { job, runs, scale, out, json } = options
  const compared: Compared[] = []
  for (const run of runs) {
    const result = await conduct(laboratory, job, run, scale)
    compared.push(result)
    if (out !== null) await keepResult(out, result)
    tell(run.name, result, json)
  }
  if (!json) console.log(tableOf(out === null ? compared : await readResults(out)))
}

async function compare(laboratory: Laboratory, options: EmulationOptions): Promise<void> {
  const compared: { name: string; result: Compared }[] = []
  for (const { name, job, run } of CONFIGURATIONS) {
    const result = await conduct(laboratory, job, run, options.scale)
    compared.push({ name, result })
    tell(name, result, options.json)
  }
  if (!options.json) console.log(comparisonOf(compared))
}

function tell(name: string, result: Compared, json: boolean): void {
  const { spans: _, ...emulated } = result.emulated
  if (json) {
    console.log(JSON.stringify({ name, ...result, emulated }))
    return
  }
  const { stepMs, waitMs } = emulated
  const off = errorPercent(result)
  console.error(
    `${name}: ${(stepMs / 1_000).toFixed(1)} s per step, ${(waitMs / 1_000).toFixed(1)} s of it waiting; prediction off by ${off.toFixed(2)} %`,
  )
}

main().catch((error: Error) => {
  console.error(error.message)
  process.exitCode = 1
})
