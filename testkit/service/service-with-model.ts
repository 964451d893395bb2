import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type SimulatedServers, startSimulatedServers } from '../processes/simulated-rm.ts'
import { Service } from './service.ts'

export async function startWithModel(
  starting: Promise<Service>,
): Promise<[Service, SimulatedServers]> {
  const [service, rm] = await Promise.all([starting, startSimulatedServers()])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
  return [service, rm]
}

/** Stops a service, if started, and calls `besides`. Asserts that the service exited with 0 and logged no problem. */
export async function stopCleanly(
  service: Service | undefined,
  besides: () => unknown = () => {},
): Promise<void> {
  const problems = service?.log.problems() ?? []
  const end = await service?.stop().finally(() => service.destroy())
  await besides()
  expect(end?.code ?? 0).toBe(0)
  expect(problems).toEqual([])
}

/**
 * Time after which an unused shared service is stopped, because an idle service takes 6 % of a core. vitest.config.ts
 * runs the files that share the service in a row, so the next file begins within 2 s.
 */
const UNUSED_MS = 5_000

let shared: { service: Promise<Service>; functionsDir: string } | undefined
let unused: NodeJS.Timeout | undefined

/**
 * A service with one worker, and the folder of its reward functions. The test files of one process share the service,
 * because a start takes 2.4 s of CPU time. Each file uses its own names for runs, functions and models, does not stop
 * the service or kill its processes, and calls {@link leaveShared} at its end.
 */
export async function sharedService(): Promise<{ service: Service; functionsDir: string }> {
  clearTimeout(unused)
  if (shared === undefined) {
    const functionsDir = mkdtempSync(join(tmpdir(), 'rewardops-functions-'))
    process.on('exit', () => rmSync(functionsDir, { recursive: true, force: true }))
    const env = { REWARDOPS_WORKERS: '1', REWARDOPS_FUNCTIONS_DIR: functionsDir }
    shared = { service: Service.start({ env }), functionsDir }
  }
  const service = await shared.service
  service.log.lines.length = 0
  return { service, functionsDir: shared.functionsDir }
}

/**
 * Removes the servers that a file registered, calls `besides`, and asserts that the service logged no problem. The
 * service stops after {@link UNUSED_MS}, unless another file uses it.
 */
export async function leaveShared(
  service: Service | undefined,
  besides: () => unknown = () => {},
): Promise<void> {
  for (const { name } of (await service?.api.servers.list.query()) ?? [])
    await service?.api.servers.remove.mutate({ name })
  await besides()
  unused = setTimeout(() => {
    shared = undefined
    void service?.stop().finally(() => service.destroy())
  }, UNUSED_MS)
  expect(service?.log.problems() ?? []).toEqual([])
}
