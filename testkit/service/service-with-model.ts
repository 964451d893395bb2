import { expect } from 'vitest'
import { type SimulatedServers, startSimulatedServers } from '../processes/simulated-rm.ts'
import { Service } from './service.ts'

/** Starts a service with one worker and a simulated reward model that is registered as `rm`. */
export async function startWithModel(): Promise<[Service, SimulatedServers]> {
  const [service, rm] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '1' } }),
    startSimulatedServers(),
  ])
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

/** Stops a service and its reward model, if started, like {@link stopCleanly}. */
export function stopWithModel(
  service: Service | undefined,
  rm: SimulatedServers | undefined,
): Promise<void> {
  return stopCleanly(service, () => rm?.stop())
}
