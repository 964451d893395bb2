import { afterAll, beforeAll, expect, it } from 'vitest'
import { sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

let service: Service

beforeAll(async () => {
  service = await Service.start()
})

afterAll(() => stopCleanly(service))

it('long polls are limited to a minute; an implicit batch closes after a minute without samples', async () => {
  const call = { run: 'waits', step: 1, sample: sample() }
  const first = await service.api.samples.score.mutate(call)
  expect(first.score).toBe(1)
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'waits',
    step: 2,
    samples: [],
    open: true,
  })
  const hours = { batchId, waitMs: 10_000_000 }
  const [next, wait] = await Promise.all([
    service.api.batches.next.query({ ...hours, after: null, samples: 1 }),
    service.api.batches.wait.query(hours),
  ])
  expect(next).toMatchObject({ groups: [], timedOut: true, done: false })
  expect(wait).toMatchObject({ batchId, status: 'open', completedAt: null })

  const implicit = async () => {
    const { items } = await service.api.batches.list.query({ run: 'waits' })
    return items.filter((b) => b.step === 1)
  }
  await waitFor('the implicit batch to close', async () => {
    const [batch] = await implicit()
    return batch?.status === 'completed' && batch
  })
  expect(await implicit()).toMatchObject([{ samples: 1, scored: 1, groupsCompleted: 1 }])
  expect((await service.api.samples.score.mutate(call)).index).toBe(0)
  expect(await implicit()).toMatchObject([{ status: 'open' }, { status: 'completed' }])
}, 120_000)
