import { expect } from 'vitest'
import { type RewardModel, startRewardModel } from './reward-model.ts'
import { Service } from './service.ts'

/** Starts a service and the reference reward model, which scores by the text's hash and is registered as `rm`. */
export async function startWithModel(): Promise<[Service, RewardModel]> {
  const [service, rm] = await Promise.all([Service.start(), startRewardModel(['--score', 'hash'])])
  await service.mutate('servers.register', { name: 'rm', url: rm.url })
  return [service, rm]
}

/** Stops both, where they were started; asserts that the service stopped by itself and had no problems. */
export async function stopWithModel(
  service: Service | undefined,
  rm: RewardModel | undefined,
): Promise<void> {
  const problems = service?.log.problems()
  const end = await service?.stop().finally(() => service.destroy())
  await rm?.stop()
  expect(end?.code).toBe(0)
  expect(problems).toEqual([])
}
