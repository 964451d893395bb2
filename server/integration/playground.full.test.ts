import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiInputs, CallError } from '../../testkit/processes/trpc-call.ts'
import { Service } from '../../testkit/service/service.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import type { TriedJudge, TriedModel, TriedRule, TriedSum } from '../contract/rewards.ts'
import type { SampleInput } from '../contract/trainer.ts'
import { current, legacy } from '../rewards/config/testing/upstream-yaml.ts'

let service: Service
let scorer: SimulatedServer
let judge: SimulatedServer
const functions = mkdtempSync(join(tmpdir(), 'rewardops-functions-'))

beforeAll(async () => {
  mkdirSync(join(functions, 'math'))
  writeFileSync(
    join(functions, 'math', 'length.ts'),
    'export function computeScore() {\n  return 1\n}\nexport default computeScore\n',
  )
  writeFileSync(
    join(functions, 'loop.ts'),
    'export async function computeScore() {\n  await new Promise(() => setInterval(() => {}, 1_000))\n}\n',
  )
  writeFileSync(
    join(functions, 'manager.ts'),
    [
      'export class Halving {',
      '  constructor({ computeScore }) { this.computeScore = computeScore }',
      '  async runSingle(sample) {',
      '    const { score, ...extra } = await this.computeScore(sample)',
      '    return { reward_score: score / 2, reward_extra_info: extra }',
      '  }',
      '}',
    ].join('\n'),
  )
  writeFileSync(
    join(functions, 'whitened.ts'),
    [
      'export class Whitened {',
      '  computeScore({ solutionStr }) { return solutionStr.length }',
      '  postProcessScores(scores) { return scores.map((score) => score - 1) }',
      '}',
    ].join('\n'),
  )
  writeFileSync(
    join(functions, 'group.ts'),
    'export function computeScore({ solutionStrs }) {\n  return solutionStrs.map((text) => text.length)\n}\n',
  )
  writeFileSync(join(functions, '.hidden.ts'), 'export const no = 1\n')
  writeFileSync(join(functions, 'notes.md'), 'no source\n')
  service = await Service.start({ env: { REWARDOPS_FUNCTIONS_DIR: functions } })
  scorer = await SimulatedServer.start({ dialect: 'vllm', model: 'scorer' })
  judge = await SimulatedServer.start({ dialect: 'chat', model: 'judge' })
  await service.api.servers.register.mutate({ name: 'scorer-0', url: scorer.url })
  await service.api.servers.register.mutate({
    name: 'judge-0',
    url: judge.url,
    engine: 'openai',
    kind: 'generative',
  })
})

afterAll(async () => {
  await Promise.all([scorer?.close(), judge?.close()])
  const problems = service?.log.problems()
  await service?.stop().finally(() => service.destroy())
  rmSync(functions, { recursive: true, force: true })
  expect(problems).toEqual([])
})

const gsm8k = {
  dataSource: 'openai/gsm8k',
  prompt: 'What is 6 * 12?',
  response: '6 * 12 is 1,072 less 1,000.\n#### 72',
  groundTruth: '72',
}
type Try = ApiInputs['rewards']['try']
const tried = (sample: Try['sample'], reward: Try['reward'] = {}) =>
  service.api.rewards.try.mutate({ sample, reward })
const refusalOf = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => null,
    (thrown: CallError) => thrown,
  )
  return { reason: error?.data.reason, message: error?.message }
}

describe('rewards.list', () => {
  it('lists everything that a batch’s reward can name, with its options', async () => {
    const list = await service.api.rewards.list.query()
    const gsm8kRule = list.rules.find(({ name }) => name === 'gsm8k')
    expect(gsm8kRule).toMatchObject({ dataSources: ['openai/gsm8k'], callsService: false })
    expect(gsm8kRule?.options).toContainEqual({
      name: 'method',
      type: 'one of',
      choices: ['strict', 'flexible'],
      defaultJson: '"strict"',
      description: expect.stringContaining('the last number'),
    })
    expect(list.rules.find(({ name }) => name === 'code')?.callsService).toBe(true)
    for (const { options } of [...list.rules, ...list.managers]) {
      for (const option of options) expect(option.description, option.name).not.toBe('')
    }
    for (const { name, description } of list.managers) expect(description, name).not.toBe('')
    const dapo = list.managers.find(({ name }) => name === 'dapo')
    expect(dapo?.options.map(({ name }) => name)).toContain('overlong_buffer_cfg.penalty_factor')
    expect(list.judges.map(({ name }) => name)).toContain('rating-1-10')
    expect(list.models).toMatchObject([
      { model: 'judge', kind: 'generative', servers: [{ name: 'judge-0', state: 'ready' }] },
      { model: 'scorer', kind: 'discriminative', servers: [{ name: 'scorer-0' }] },
    ])
  })

  it('lists the functions folder without running its files', async () => {
    const list = await service.api.rewards.list.query()
    expect(list.functions).toMatchObject({ folder: functions, exists: true, hasMore: false })
    expect(list.functions.files).toMatchObject([
      { path: 'group.ts', exports: ['computeScore'] },
      { path: 'loop.ts', exports: ['computeScore'] },
      { path: 'manager.ts', exports: ['Halving'] },
      { path: 'math/length.ts', exports: ['default', 'computeScore'], bytes: 74, problem: null },
      { path: 'whitened.ts', exports: ['Whitened'] },
    ])
    for (const { hash } of list.functions.files) expect(hash).toMatch(/^[0-9a-f]{12}$/)
  })
})

describe('rewards.try', () => {
  it('shows the options, found answer and verdict of a rule', async () => {
    const { steps, ...rest } = await tried(gsm8k, { kwargs: { score: 2 } })
    expect(rest).toMatchObject({
      rewardName: 'gsm8k',
      end: { ok: true, score: 2 },
      rewardExtraInfo: { acc: 2 },
      resolved: { kind: 'rule', manager: 'naive', why: expect.stringContaining('openai/gsm8k') },
      manager: { rawScore: 2, score: 2, added: 0 },
    })
    expect(steps).toHaveLength(1)
    expect(steps[0] as TriedRule).toMatchObject({
      kind: 'rule',
      options: { method: 'strict', format_score: 0, score: 2, version: '2026-01' },
      found: '72',
      verdict: 'equal',
      end: { ok: true, score: 2 },
    })
  })

  it('returns the result of a batch with the same sample and reward', async () => {
    const rewards: Try['reward'][] = [
      {},
      { kwargs: { method: 'flexible', format_score: 0.1 } },
      { function: { name: 'math_verify' } },
      { model: 'scorer' },
      { model: 'judge', judge: 'rating-1-10' },
      { function: { path: 'math/length.ts', name: 'computeScore' } },
      { manager: { path: 'manager.ts', name: 'Halving' } },
      { function: { path: 'whitened.ts', name: 'Whitened' } },
      { manager: 'batch', function: { path: 'group.ts' } },
      { manager: 'rate_limited', kwargs: { max_concurrent: 2 } },
      { manager: 'remote', function: { name: 'math_verify' } },
      {
        combine: [
          { name: 'right', weight: 1 },
          { name: 'rm', weight: 0.5, reward: { model: 'scorer' } },
        ],
      },
    ]
    for (const reward of rewards) {
      const sample: SampleInput = { uid: 'q1', ...gsm8k }
      const { batchId } = await service.api.batches.submit.mutate({
        run: 'compared',
        step: 1,
        samples: [sample],
        reward,
      })
      const batch = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
      const { end, rewardName } = await tried(gsm8k, reward)
      expect(end).toEqual({ ok: true, score: batch.mean })
      expect(rewardName).toBe(batch.rewardName)
    }
  })

  it('shows the manager’s penalty for an overlong response, with its calculation', async () => {
    const reward = {
      manager: 'dapo',
      kwargs: { max_resp_len: 100, overlong_buffer_cfg: { enable: true, len: 50 } },
    }
    const { manager, end } = await tried({ ...gsm8k, responseLength: 75 }, reward)
    expect(end).toEqual({ ok: true, score: 0.5 })
    expect(manager).toMatchObject({ name: 'dapo', rawScore: 1, score: 0.5, added: -0.5 })
    expect(manager?.why).toBe('25 tokens over 50: −(25 ÷ 50) × 1.')
    const unknown = await tried(gsm8k, reward)
    expect(unknown.end).toMatchObject({ ok: false, reason: 'function_error' })
    expect(unknown.manager).toBeNull()
  })

  it('shows a reward model’s request, server and duration', async () => {
    const { steps, end } = await tried(gsm8k, { model: 'scorer' })
    const [step] = steps as [TriedModel]
    expect(step).toMatchObject({ kind: 'model', serverName: 'scorer-0', end })
    expect(step.request).toMatchObject({ engine: 'vllm', path: '/classify', cut: false })
    expect(JSON.parse(step.request?.body ?? '{}')).toMatchObject({
      messages: [
        { role: 'user', content: gsm8k.prompt },
        { role: 'assistant', content: gsm8k.response },
      ],
    })
    expect(step.attempts).toMatchObject([{ attempt: 1, outcome: 'ok', statusCode: 200 }])
  })

  it('shows a judge’s prompt, reply and parsed rating', async () => {
    const { steps, end } = await tried(gsm8k, { model: 'judge', judge: 'rating-1-10' })
    const [step] = steps as [TriedJudge]
    expect(step).toMatchObject({ kind: 'judge', template: 'rating-1-10', parser: 'bracketed', end })
    const [vote] = step.votes
    expect(vote?.messages.at(-1)?.content).toContain(gsm8k.response)
    expect(vote?.reply).toContain(vote?.read)
    expect(vote?.read).toBe(`[[${vote?.value}]]`)
    expect(end).toEqual({ ok: true, score: vote?.value })
  })

  it('shows the version of a function that ran, which equals the listed one', async () => {
    const { steps } = await tried(gsm8k, { function: { path: 'math/length.ts' } })
    const { functions: listed } = await service.api.rewards.list.query()
    const { hash } = listed.files.find(({ path }) => path === 'math/length.ts')!
    expect(steps).toMatchObject([
      { kind: 'function', role: 'function', hash, end: { ok: true, score: 1 } },
    ])
  })

  it('shows the inputs and result of a manager’s class', async () => {
    const { steps } = await tried(gsm8k, { manager: { path: 'manager.ts', name: 'Halving' } })
    expect(steps).toMatchObject([
      { kind: 'rule', rule: 'gsm8k', end: { ok: true, score: 1 } },
      { kind: 'function', role: 'manager', name: 'Halving', end: { ok: true, score: 0.5 } },
    ])
  })

  it('shows the result of a group’s post-processing', async () => {
    const { group, steps, end } = await tried(gsm8k, {
      function: { path: 'whitened.ts', name: 'Whitened' },
    })
    const { length } = gsm8k.response
    expect(steps[0]?.end).toEqual({ ok: true, score: length })
    expect(group).toEqual({ path: 'whitened.ts', before: length, end })
    expect(end).toEqual({ ok: true, score: length - 1 })
  })

  it('shows each component of a composite reward with its weight, or its failure reason', async () => {
    const combine = [
      { name: 'right', weight: 1 },
      { name: 'rm', weight: 0.5, reward: { model: 'scorer' } },
      { name: 'grade', weight: 0.1, reward: { model: 'judge', judge: 'rating-1-10' } },
    ]
    const { steps, end } = await tried(gsm8k, { combine })
    const [sum] = steps as [TriedSum]
    expect(sum.components.map(({ name, steps: of }) => [name, of[0]?.kind])).toEqual([
      ['right', 'rule'],
      ['rm', 'model'],
      ['grade', 'judge'],
    ])
    const total = sum.components.reduce((all, part) => {
      expect(part.end.ok).toBe(true)
      return all + (part.end.ok ? part.weight * part.end.score : Number.NaN)
    }, 0)
    expect(end).toEqual({ ok: true, score: total })

    const failed = await tried({ ...gsm8k, groundTruth: null }, { combine: combine.slice(0, 2) })
    expect(failed.end).toMatchObject({ ok: false, reason: 'function_error' })
    const [failedSum] = failed.steps as [TriedSum]
    expect(failedSum.components[0]?.end).toMatchObject({ ok: false, reason: 'function_error' })
    expect(failedSum.components[1]).toMatchObject({ name: 'rm', steps: [], end: { ok: false } })
  })

  it('calls a pair judge once in each order', async () => {
    const before = judge.stats().texts.length
    const { steps } = await tried(gsm8k, { model: 'judge', judge: 'pair-against-reference' })
    const [step] = steps as [TriedJudge]
    expect(step.votes.map(({ swapped }) => swapped)).toEqual([false, true])
    expect(judge.stats().texts.length - before).toBe(2)
  })

  it('reports a failure’s reason with the server’s message', async () => {
    scorer.control({ faults: { error500: 1 } })
    try {
      const { steps, end } = await tried(gsm8k, { model: 'scorer', maxAttempts: 2 })
      expect(end).toMatchObject({ ok: false, reason: 'transport' })
      const [step] = steps as [TriedModel]
      expect(step.attempts.map(({ statusCode }) => statusCode)).toEqual([500, 500])
      expect(step.end).toEqual(end)
    } finally {
      scorer.control({ faults: null })
    }
    const wrong = await tried({ ...gsm8k, groundTruth: { ground_truth: '72' } })
    expect(wrong.end).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: expect.stringContaining('groundTruth is an object'),
    })
    expect(wrong.steps[0]?.end).toEqual(wrong.end)
  })

  it('ends at its deadline if no server answers in time', async () => {
    scorer.control({ faults: { hang: 1 } })
    try {
      const { end } = await service.api.rewards.try.mutate({
        sample: { ...gsm8k, response: 'a text of its own' },
        reward: { model: 'scorer' },
        deadlineMs: 300,
      })
      expect(end).toMatchObject({ ok: false, reason: 'deadline' })
    } finally {
      scorer.control({ faults: null })
    }
  })

  it('cancels a function at the deadline', async () => {
    const { end } = await service.api.rewards.try.mutate({
      sample: gsm8k,
      reward: { function: { path: 'loop.ts' } },
      deadlineMs: 1_500,
    })
    expect(end).toMatchObject({ ok: false, reason: 'deadline' })
  })

  it('refuses the same inputs as a submit, with the same messages', async () => {
    const samples = [{ uid: 'q1', ...gsm8k }]
    for (const reward of [
      { kwargs: { methd: 'strict' } },
      { manager: 'dap' },
      { model: 'scorr' },
      { model: 'judge' },
      { function: { name: 'math_verfy' } },
    ]) {
      const submit = service.api.batches.submit.mutate({ run: 'r', step: 1, samples, reward })
      const { reason, message } = await refusalOf(submit)
      expect(reason).toBeDefined()
      const refused = await refusalOf(tried(gsm8k, reward))
      expect(refused.reason).toBe(reason)
      expect(refused.message?.replace('rewards.try', 'batches.submit')).toBe(message)
    }
    // Batches allow this deadline. The playground refuses it, because it runs rules in the server process.
    const slow = { function: { name: 'math_verify', kwargs: { deadline_ms: 1_000 } } }
    expect(await refusalOf(tried(gsm8k, slow))).toMatchObject({ reason: 'unsupported_setting' })
    const long = { ...gsm8k, response: 'x'.repeat(500_001) }
    expect(await refusalOf(tried(long))).toMatchObject({ reason: 'invalid_input' })
  })

  it('stores nothing', async () => {
    const count = async () =>
      (await service.sql<{ n: number }>('select count(*)::int as n from sample'))[0]
    const before = await count()
    await tried(gsm8k)
    await tried(gsm8k, { model: 'scorer' })
    expect(await count()).toEqual(before)
  })
})

describe('rewards.importConfig', () => {
  const imported = (text: string) => service.api.rewards.importConfig.mutate({ text })

  it.each([
    ['old', legacy, 'legacy'],
    ['new', current, 'current'],
  ])(
    'accepts verl’s own YAML of the %s shape, and explains each of its keys',
    async (_, text, shape) => {
      const config = await imported(text)
      expect(config).toMatchObject({ shape, problems: [] })
      expect(config.keys.length).toBeGreaterThan(30)
      for (const { note } of config.keys) expect(note).not.toBe('')
    },
  )

  it('returns a reward that can be tried, and suggests a key for a misspelled one', async () => {
    const config = await imported(
      'reward_model.reward_manager=dapo +reward_model.reward_kwargs.max_resp_len=100 reward_model.reward_manger=dapo',
    )
    expect(config.reward).toEqual({ manager: 'dapo', kwargs: { max_resp_len: 100 } })
    expect(config.keys.find(({ status }) => status === 'unknown')).toMatchObject({
      key: 'reward_model.reward_manger',
      nearest: 'reward_model.reward_manager',
    })
    expect((await tried({ ...gsm8k, responseLength: 7 }, config.reward)).end).toEqual({
      ok: true,
      score: 1,
    })
  })

  it('does not delay other callers, even with deeply nested YAML aliases', async () => {
    const names = [...'abcdefghijklmnopqrs']
    const aliases = names.map(
      (name, at) =>
        `${name}: &${name} ${at === 0 ? '{k: 1}' : `{p: *${names[at - 1]}, q: *${names[at - 1]}}`}`,
    )
    let isDone = false
    const importing = imported(aliases.join('\n')).finally(() => {
      isDone = true
    })
    await service.api.rewards.list.query()
    expect(isDone).toBe(false)
    expect((await importing).keys.length).toBeLessThan(20_001)
  })

  it('reports malformed YAML, and refuses a text that is too long', async () => {
    expect((await imported('reward: [1, 2')).problems).toHaveLength(1)
    expect(await refusalOf(imported('x'.repeat(400_001)))).toMatchObject({
      reason: 'invalid_input',
    })
  })
})
