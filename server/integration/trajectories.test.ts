import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRollouts } from '../../packages/cli/rollouts/read-rollouts.ts'
import { createRewardOpsClient } from '../../packages/client-typescript/src/index.ts'
import { startSimulatedServers } from '../../testkit/processes/simulated-rm.ts'
import { sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'

let folder: string
let service: Service

beforeAll(async () => {
  ;({ service, functionsDir: folder } = await sharedService())
})
afterAll(() => leaveShared(service))

const IMAGE = {
  type: 'image_url',
  image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' },
}

const TRAJECTORY = [
  ...Array.from({ length: 5 }, (_, i) => [
    {
      role: 'assistant',
      content: i === 0 ? null : `Step ${i} 🧮`,
      reasoning_content: `I need ${i} + ${i}.`,
      tool_calls: [
        {
          id: `call_${i}`,
          type: 'function',
          function: { name: 'add', arguments: `{"a": ${i}, "b":${i}}` },
        },
      ],
    },
    {
      role: 'tool',
      tool_call_id: `call_${i}`,
      name: 'add',
      content: i < 2 ? [{ type: 'text', text: `${i + i}` }, IMAGE] : `${i + i}\u0000`,
    },
  ]).flat(),
  { role: 'user', content: 'And in words?' },
  { role: 'assistant', content: 'It is 72. 🎉\n#### 72', provider_state: { ids: [1, 2] } },
]
const LAST = TRAJECTORY.length - 1
const REWARDS = {
  turns: [
    { message: 0, score: 0.25 },
    { message: LAST, score: 1 },
  ],
  spans: [{ message: LAST, start: 6, end: 11, score: -0.5 }],
}
const TEXTS = [
  { role: 'assistant', content: 'Adding 🧮', tool_calls: [{ function: { name: 'add' } }] },
  { role: 'tool', content: '' },
  { role: 'assistant', content: 'It is 72. 🎉' },
]
const PARTS = { turns: [], spans: [] }
const PROMPT = [{ role: 'user', content: [{ type: 'text', text: 'Add what you see.' }, IMAGE] }]
const trajectory = (uid = 't') => ({ ...sample({ uid }), prompt: PROMPT, response: TRAJECTORY })

const ended = async (batchId: string) => {
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  return service.api.batches.results.query({ batchId })
}
const submit = (samples: object[], reward: object = {}) =>
  service.api.batches.submit.mutate({ run: 'agent', step: 1, reward, samples: samples as never })

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return name
}

describe('a trajectory', () => {
  it('is stored and returned message by message, and rules read its text', async () => {
    const { batchId } = await submit([trajectory()])
    expect(await ended(batchId)).toMatchObject({
      score: [1],
      verdict: ['equal'],
      extracted: ['72'],
    })
    const detail = await service.api.samples.get.query({ id: `${batchId}-0` })
    const { content: _, ...first } = TRAJECTORY[0]!
    expect(detail.messages).toEqual([{ ...first, content: '' }, ...TRAJECTORY.slice(1)])
    expect(detail.response).toContain(
      '<tool_call>\n{"name": "add", "arguments": {"a": 4, "b":4}, "id": "call_4"}\n</tool_call>',
    )
    expect(detail.response).toContain(
      'name="add" tool_call_id="call_0">\n0<image_url>\n</tool_response>',
    )
    expect(detail.response).toContain('<think>\nI need 0 + 0.\n</think>')
    expect(detail.response).toContain('<turn role="user">\nAnd in words?\n</turn>')
    expect(detail.response.endsWith('It is 72. 🎉\n#### 72')).toBe(true)
    const ids = [`${batchId}-0`]
    expect(await service.api.samples.firstLines.query({ ids })).toEqual([
      { id: `${batchId}-0`, prompt: 'Add what you see.', response: '0' },
    ])
  })

  it('is found by its text, and an append of equal messages counts as a repetition', async () => {
    const open = await service.api.batches.submit.mutate({
      run: 'agent',
      step: 2,
      open: true,
      samples: [],
    })
    const appended = { batchId: open.batchId, startIndex: 0, samples: [trajectory()] }
    await service.api.batches.append.mutate(appended)
    await service.api.batches.append.mutate(appended)
    const other = TRAJECTORY.with(3, { ...TRAJECTORY[3]!, content: 'another result' })
    await expect(
      service.api.batches.append.mutate({
        ...appended,
        samples: [{ ...sample({ uid: 't' }), response: other }],
      }),
    ).rejects.toThrow('other content')
    await service.api.samples.score.mutate({
      ...{ run: 'agent', step: 2, batchId: open.batchId, sample: trajectory('single') },
    })
    await service.api.batches.close.mutate({ batchId: open.batchId })
    expect((await ended(open.batchId)).score).toEqual([1, 1])
    const found = (text: string) => service.api.samples.list.query({ batch: open.batchId, text })
    expect((await found('in words')).items).toHaveLength(2)
    expect((await found('tool_call_id')).items).toHaveLength(0)
  })

  it('reaches functions as text and as messages, whose turn and span rewards reach the trainer', async () => {
    const path = file(
      'turns.ts',
      `export default ({ prompt, messages, solutionStr }) => ({
        score: messages.length + prompt[0].content.length, tail: solutionStr.slice(-2),
        rewardops: { verdict: 'done', extracted: null, rewards: ${JSON.stringify(REWARDS)} } })`,
    )
    const { batchId } = await submit([trajectory()], { function: { path } })
    expect(await ended(batchId)).toMatchObject({
      ...{ score: [14], verdict: ['done'], rewards: [REWARDS] },
      rewardExtraInfo: { tail: ['72'] },
    })
    const { groups } = await service.api.batches.next.query({ batchId, after: null, samples: 1 })
    expect(groups[0]?.samples[0]).toMatchObject({ rewards: REWARDS })
    const plain = await submit([sample()], {
      function: {
        path: file('none.ts', 'export default ({ messages }) => Number(messages === null)'),
      },
    })
    expect(await ended(plain.batchId)).toMatchObject({ score: [1], rewards: [null] })
  })

  it('fails if a function rewards a turn or span that the response does not have', async () => {
    const path = file(
      'wrong.ts',
      `export default ({ extraInfo }) => ({ score: 1, rewardops: { rewards: extraInfo.rewards } })`,
    )
    const wrong = [
      { turns: [{ message: 12, score: 1 }] },
      { spans: [{ message: LAST, start: 0, end: 20, score: 1 }] },
      { turns: [{ message: 0 }] },
    ]
    const { batchId } = await submit(
      [...wrong, { spans: [{ message: LAST, start: 0, end: 19, score: 1 }] }].map((rewards, i) => ({
        ...trajectory(`t${i}`),
        extraInfo: { rewards },
      })),
      { function: { path } },
    )
    const { reason, score } = await ended(batchId)
    expect(reason).toEqual(['function_error', 'function_error', 'function_error', null])
    expect(score).toEqual([null, null, null, 1])
    const detail = await service.api.samples.get.query({ id: `${batchId}-1` })
    expect(detail.attemptLog?.at(-1)?.detail ?? JSON.stringify(detail)).toContain(
      'which has 19 code points',
    )
  })

  it('is exported and imported unchanged', async () => {
    const given = { ...trajectory(), score: 0.5, rewards: REWARDS, verdict: 'judged' }
    const { batchId } = await submit([given])
    for (const format of ['jsonl', 'csv']) {
      const response = await fetch(
        `${service.url}/api/export/samples?batch=${batchId}&format=${format}`,
      )
      const path = join(folder, `export.${format}`)
      writeFileSync(path, await response.text())
      const read = []
      for await (const { sample: one } of (await openRollouts(path, { scores: 'keep' })).rollouts())
        read.push(one)
      expect(read).toMatchObject([
        { prompt: PROMPT, response: TRAJECTORY, score: 0.5, rewards: REWARDS, verdict: 'judged' },
      ])
    }
    const dump = await fetch(`${service.url}/api/export/samples?batch=${batchId}&format=verl`)
    const { output } = JSON.parse(await dump.text()) as { output: string }
    expect(output).toBe((await service.api.samples.get.query({ id: `${batchId}-0` })).response)
    const { batchId: rescored } = await service.api.batches.rescore.mutate({ batchId, reward: {} })
    expect(await ended(rescored)).toMatchObject({ score: [1], rewards: [null] })
  })

  it('has the token scores of a process reward model, by message and in pages of results', async () => {
    const prm = await startSimulatedServers(['--serves', 'token', '--model', 'prm'])
    try {
      await service.api.servers.register.mutate({ name: 'prm', url: prm.url })
      const text = { ...trajectory('text'), prompt: 'Add.', response: 'It is 72. 🎉\n#### 72' }
      const plain = { ...trajectory(), prompt: 'Add.', response: TEXTS }
      const rm = { model: 'prm', tokenScores: true }
      const { batchId } = await submit([text, plain], rm)
      expect(await ended(batchId)).toMatchObject({ rewards: [PARTS, PARTS] })
      const { index, score, rewards } = await service.api.batches.results.query({
        ...{ batchId, limit: 500, tokenScores: true },
      })
      expect(index).toEqual([0, 1])
      const client = createRewardOpsClient({ url: service.url })
      expect((await client.results(batchId, { tokenScores: true })).rewards).toEqual(rewards)
      const points = [...text.response]
      const [own] = rewards[0]?.tokens ?? []
      const texts = own?.starts?.map((start, i) => points.slice(start, own.ends?.[i]).join(''))
      expect(texts?.join('')).toBe(text.response)
      expect(own?.scores.at(-1)).toBe(score[0])
      expect(new Set(own?.scores).size).toBeGreaterThan(1)
      const { groups } = await service.api.batches.next.query({ batchId, samples: 2 })
      expect(groups.flatMap(({ samples }) => samples.map((one) => one.rewards))).toEqual(
        expect.arrayContaining(rewards),
      )
      expect(rewards[1]?.tokens?.map(({ message }) => message)).toEqual([0, 2])
      expect(rewards[1]?.tokens?.[1]?.ends?.at(-1)).toBe([...TEXTS[2]!.content!].length)

      const mixed = await submit([text], {
        combine: [
          { name: 'steps', weight: 2, reward: rm },
          { name: 'rule', reward: { function: { name: 'gsm8k' } } },
        ],
      })
      await ended(mixed.batchId)
      const detail = await service.api.samples.get.query({ id: `${mixed.batchId}-0` })
      expect(detail.rewards?.tokens).toEqual([
        { ...own, component: 'steps', scores: own?.scores.map((one) => 2 * one) },
      ])
      await expect(submit([text], { tokenScores: true })).rejects.toThrow(
        'reward.tokenScores: needs reward.model',
      )
      await expect(
        service.api.batches.results.query({ batchId, tokenScores: true }),
      ).rejects.toThrow('must be at most 500 with tokenScores')
    } finally {
      await prm.stop()
    }
  })

  it('is refused with rewards that do not fit, before anything is stored', async () => {
    const wrong = (rewards: object, more: object = { score: 1 }) =>
      submit([{ ...sample(), ...more, rewards }])
    await expect(wrong({ turns: [{ message: 1, score: 1 }] })).rejects.toThrow(
      'refer to message 1, but the response has only message 0',
    )
    await expect(wrong(REWARDS, {})).rejects.toThrow('belong to a score')
    await expect(wrong({ spans: [{ message: 0, start: 3, end: 2, score: 1 }] })).rejects.toThrow(
      'must not end before it starts',
    )
    await expect(submit([{ ...sample(), response: [] }])).rejects.toThrow('response')
  })
})
