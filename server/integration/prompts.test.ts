import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gradedProblems, hasGradedProblems, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'

let service: Service

beforeAll(async () => {
  ;({ service } = await sharedService())
})
afterAll(() => leaveShared(service))

async function rolledUp(batchId: string): Promise<void> {
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  await expect
    .poll(
      async () =>
        (
          await service.sql<{ rolled_up: boolean }>('select rolled_up from batch where id = $1', [
            Number(batchId.slice(1)),
          ])
        )[0]?.rolled_up,
      { timeout: 30_000 },
    )
    .toBe(true)
}

describe('prompts', () => {
  it('keep the id that a trainer sends, for every call that adds samples', async () => {
    const run = 'prompt-ids'
    const made = (uid: string, score: number) =>
      sample({ uid, promptId: `id-of-${uid}`, prompt: `asked at ${uid} ${score}`, score })
    const whole = await service.api.batches.submit.mutate({
      ...{ run, step: 1, samples: [made('a', 1), made('a', 0)] },
    })
    const open = await service.api.batches.submit.mutate({ run, step: 2, open: true, samples: [] })
    const appended = { batchId: open.batchId, startIndex: 0, samples: [made('b', 1), made('a', 0)] }
    await service.api.batches.append.mutate(appended)
    await service.api.batches.append.mutate(appended)
    await expect(
      service.api.batches.append.mutate({
        ...appended,
        samples: [made('b', 1), { ...made('a', 0), promptId: 'another' }],
      }),
    ).rejects.toThrow('sample 1 is stored with other content')
    await service.api.samples.score.mutate({
      ...{ run, step: 2, batchId: open.batchId },
      sample: sample({ uid: 'c', promptId: 'id-of-c' }),
    })
    await service.api.batches.close.mutate({ batchId: open.batchId })
    for (const { batchId } of [whole, open]) await rolledUp(batchId)
    const { batchId: rescored } = await service.api.batches.rescore.mutate({
      ...{ batchId: whole.batchId, reward: { function: { name: 'gsm8k' } } },
    })
    await rolledUp(rescored)

    const { items } = await service.api.prompts.list.query({ run, orderBy: 'visits' })
    const ofSample = await service.api.samples.get.query({ id: `${whole.batchId}-1` })
    const ofA = items.find(({ promptId }) => promptId === 'id-of-a')
    expect([ofSample.promptId, ofSample.promptKey]).toEqual(['id-of-a', ofA?.key])
    expect(items.map(({ promptId, visits }) => [promptId, visits]).sort()).toEqual([
      ['id-of-a', 2],
      ['id-of-b', 1],
      ['id-of-c', 1],
    ])
    const idsOf = async (batchId: string) => {
      const response = await fetch(
        `${service.url}/api/export/samples?batch=${batchId}&columns=promptId`,
      )
      return (await response.text())
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { promptId: string }).promptId)
    }
    expect(await idsOf(open.batchId)).toEqual(['id-of-b', 'id-of-a', 'id-of-c'])
    expect(await idsOf(rescored)).toEqual(['id-of-a', 'id-of-a'])
  })

  it.skipIf(!hasGradedProblems)('of GSM8K have the published pass@k', async () => {
    const groups = gradedProblems()
    const run = 'gsm8k-pass-at-k'
    const { batchId } = await service.api.batches.submit.mutate({
      ...{ run, step: 1 },
      samples: groups.flatMap(({ id, question, responses }) =>
        responses.map(({ response, label }) =>
          sample({
            ...{ uid: id, promptId: id, prompt: question, response },
            score: Number(label),
          }),
        ),
      ),
    })
    await rolledUp(batchId)
    const { steps } = await service.api.prompts.steps.query({ run })
    // The definition of pass@k: the share of sets of k responses that contain a correct response.
    const chosen = (n: number, k: number): number => (k === 0 ? 1 : (chosen(n - 1, k - 1) * n) / k)
    for (const k of [1, 2, 4, 8]) {
      const of = groups.filter(({ responses }) => responses.length >= k)
      const wanted =
        of.reduce((sum, { responses }) => {
          const wrong = responses.filter(({ label }) => !label).length
          return sum + 1 - (wrong < k ? 0 : chosen(wrong, k) / chosen(responses.length, k))
        }, 0) / of.length
      const shown = steps[0]?.passAt?.find((at) => at.k === k)
      expect(shown).toMatchObject({ groups: of.length, value: expect.closeTo(wanted, 12) })
    }
    const classes = new Map(
      groups.map(({ id, responses }) => {
        const right = responses.filter(({ label }) => label).length
        return [id, right === 0 ? 'unsolved' : right === responses.length ? 'solved' : 'mixed']
      }),
    )
    const { items } = await service.api.prompts.list.query({ run, limit: 200 })
    expect(new Map(items.map(({ promptId, class: name }) => [promptId, name]))).toEqual(classes)
  })
})
