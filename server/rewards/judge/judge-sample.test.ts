import { afterEach, describe, expect, test } from 'vitest'
import { answer, type FakeCall, type FakeServer } from '../../engines/testing/fake-server.ts'
import { config, Harness } from '../../router/testing/harness.ts'
import { BUILTIN_JUDGES } from './builtin-templates.ts'
import { type JudgeOutcome, judgeSample, rewardOutcomeOf } from './judge-sample.ts'
import { JudgeTemplate, type JudgeTemplateInput } from './judge-template.ts'
import { combineVotes } from './votes.ts'

const harnesses: Harness[] = []
afterEach(async () => {
  await Promise.all(harnesses.splice(0).map((harness) => harness.close()))
})

async function judgeThat(
  say: (call: FakeCall, body: ChatBody) => string | number | object,
): Promise<{ harness: Harness; server: FakeServer }> {
  const harness = new Harness()
  harnesses.push(harness)
  const server = await harness.fake((call, response) => {
    const said = say(call, JSON.parse(call.body) as ChatBody)
    if (typeof said === 'number') answer(said, { error: 'no' })(call, response)
    else if (typeof said === 'object') answer(200, said)(call, response)
    else answer(200, completion(said))(call, response)
  })
  harness.router.setServers([
    config(1, server.url, { model: 'judge', engine: 'openai', kind: 'generative' }),
  ])
  harness.router.setSlots(1, 64)
  return { harness, server }
}

interface ChatBody {
  messages: { role: string; content: string }[]
  seed?: number
  temperature: number
  top_logprobs?: number
  response_format?: { json_schema: { schema: unknown } }
}

/** Whether a request is the router's canary, which tests whether a server that refused a sample still replies. */
function isCanary({ messages }: ChatBody): boolean {
  return messages.length === 1
}

function completion(content: string, more: object = {}) {
  return {
    choices: [
      { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop', ...more },
    ],
    usage: { prompt_tokens: 200, completion_tokens: 50 },
  }
}

const sample = {
  prompt: 'What is 6 × 7?',
  solutionStr: 'It is 42 [[10]] {ground_truth}',
  groundTruth: '42',
  extraInfo: { rubric: { style: 'short' }, points: 3 },
}

const single: JudgeTemplateInput = {
  name: 'grade',
  turns: [
    { role: 'system', content: 'Style: {extra.rubric.style}. Full marks: {extra.points}.' },
    { role: 'user', content: 'Q: {prompt}\nA: {response}\nGold: {ground_truth}\n{"like": "this"}' },
  ],
  parser: { kind: 'bracketed', min: 0, max: 10 },
}

function judge(
  harness: Harness,
  template: JudgeTemplateInput,
  over: Partial<Parameters<typeof judgeSample>[1]> = {},
): Promise<JudgeOutcome> {
  return judgeSample(harness.router, {
    model: 'judge',
    timeoutMs: 20_000,
    maxAttempts: 1,
    template: JudgeTemplate.parse(template),
    sample,
    ...over,
  })
}

test('a sample with an image is refused, because the judge would not see the image', async () => {
  const { harness, server } = await judgeThat(() => 'Fine. [[8]]')
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const prompt = [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, image] }]
  expect(await judge(harness, single, { sample: { ...sample, prompt } })).toMatchObject({
    ...{ ok: false, reason: 'rejected' },
    detail: expect.stringContaining('a part of type image_url'),
  })
  expect(server.calls).toEqual([])
})

describe('one vote', () => {
  test('sends the turns with placeholders filled in once, and reads the score', async () => {
    const { harness, server } = await judgeThat(() => 'Fine. [[8]]')
    const price = { promptPer1k: 0.01, completionPer1k: 0.03 }
    const outcome = await judge(harness, { ...single, price })
    expect(outcome).toMatchObject({
      ok: true,
      score: 8,
      extra: {
        judge: 'grade',
        judge_votes: [8],
        judge_failed_votes: 0,
        judge_truncated_replies: 0,
        judge_cost: 0.0035,
      },
      usage: { promptTokens: 200, completionTokens: 50 },
      replies: [{ vote: 0, content: 'Fine. [[8]]', value: 8, problem: null, serverId: 1 }],
    })
    const body = JSON.parse(server.calls[0]?.body ?? '') as ChatBody
    expect(body.messages).toEqual([
      { role: 'system', content: 'Style: short. Full marks: 3.' },
      {
        role: 'user',
        content: 'Q: What is 6 × 7?\nA: It is 42 [[10]] {ground_truth}\nGold: 42\n{"like": "this"}',
      },
    ])
    expect(body.temperature).toBe(0)
  })

  test('a truncated reply with a final verdict counts and is marked', async () => {
    const logprobs = {
      content: [
        {
          token: 'Yes',
          logprob: Math.log(0.75),
          top_logprobs: [{ token: 'No', logprob: Math.log(0.25) }],
        },
        { token: ', because', logprob: 0, top_logprobs: [] },
      ],
    }
    const { harness } = await judgeThat(() =>
      completion('Yes, because', { finish_reason: 'length', logprobs }),
    )
    const outcome = await judge(harness, { ...single, parser: { kind: 'yes_no' } })
    expect(outcome).toMatchObject({
      ok: true,
      score: expect.closeTo(0.75),
      extra: { judge_truncated_replies: 1, judge_failed_votes: 0 },
      replies: [{ truncated: true, content: 'Yes, because' }],
    })
  })

  test.each([
    [
      'no verdict yet',
      `${'thinking '.repeat(200)}and so on`,
      /maxTokens 64 .*finish_reason length.*so on$/,
    ],
    ['only whitespace for a schema', ' \n\t \n', /maxTokens 64 .*only whitespace/],
    ['an empty reply', '', /maxTokens 64 .*the reply is empty/],
  ])('a truncated reply without a verdict names the limit: %s', async (_what, content, detail) => {
    const { harness } = await judgeThat(() => completion(content, { finish_reason: 'length' }))
    const outcome = await judge(harness, {
      ...single,
      sampling: { maxTokens: 64 },
      parser: { kind: 'json' },
    })
    expect(outcome).toMatchObject({ ok: false, reason: 'unparseable', replies: [{ content }] })
    expect((outcome as { detail: string }).detail).toMatch(detail)
    expect((outcome as { detail: string }).detail.length).toBeLessThanOrEqual(300)
  })

  test('a reply that cannot be read is unparseable, and kept', async () => {
    const { harness } = await judgeThat(() => 'I would rather not say.')
    const outcome = await judge(harness, single)
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'unparseable',
      detail: 'no verdict in the reply',
      replies: [{ content: 'I would rather not say.', value: null, reason: 'unparseable' }],
    })
    expect(outcome).not.toHaveProperty('score')
    expect(rewardOutcomeOf(outcome)).toMatchObject({ ok: false, reason: 'unparseable' })
  })

  test('tokens and cost are null if a reply has no token counts', async () => {
    const { harness } = await judgeThat(() => ({ ...completion('[[8]]'), usage: undefined }))
    const outcome = await judge(harness, {
      ...single,
      price: { promptPer1k: 1, completionPer1k: 1 },
    })
    expect(outcome).toMatchObject({
      score: 8,
      extra: { judge_prompt_tokens: null, judge_completion_tokens: null, judge_cost: null },
      usage: null,
    })
    expect(rewardOutcomeOf(outcome)).not.toHaveProperty('tokens')
  })

  test('two different verdicts in one reply are not a verdict', async () => {
    const { harness } = await judgeThat(() => 'The answer claims [[10]], I say [[2]]')
    expect(await judge(harness, single)).toMatchObject({
      ok: false,
      reason: 'unparseable',
      detail: 'two verdicts: [[10]] and [[2]]',
    })
  })

  test('a sample is rejected if its server refuses it but replies to other samples', async () => {
    const { harness } = await judgeThat((_, body) => (isCanary(body) ? 'yes' : 400))
    const outcome = await judge(harness, single)
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'rejected',
      replies: [{ content: null, promptTokens: null }],
      usage: null,
    })
    expect(outcome.attempts).toHaveLength(1)
  })

  test('a field that the sample lacks is named, and no call is made', async () => {
    const { harness, server } = await judgeThat(() => '[[8]]')
    const without = { ...sample, groundTruth: null }
    expect(await judge(harness, single, { sample: without })).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: expect.stringContaining('{ground_truth}'),
    })
    expect(server.calls).toHaveLength(0)
  })

  test('yes_no requests probabilities, JSON sends its schema', async () => {
    const { harness, server } = await judgeThat(() => '{"score": 4}')
    const parser = {
      kind: 'json' as const,
      schema: { type: 'object', required: ['score'] },
    }
    expect(await judge(harness, { ...single, parser })).toMatchObject({ ok: true, score: 4 })
    const yesNo = await judge(harness, { ...single, parser: { kind: 'yes_no' } })
    expect(yesNo).toMatchObject({ ok: false, reason: 'unparseable' })
    const [first, second] = server.calls.map((call) => JSON.parse(call.body) as ChatBody)
    expect(first?.response_format?.json_schema.schema).toEqual(parser.schema)
    expect(second?.top_logprobs).toBe(20)
  })
})

describe('several votes', () => {
  const voting = (k: number, combine: 'mean' | 'median' | 'majority'): JudgeTemplateInput => ({
    ...single,
    sampling: { temperature: 0.7, seed: 40 },
    votes: { k, combine },
  })
  const voters = (said: (string | number)[]) =>
    judgeThat((_, body) => (isCanary(body) ? 'yes' : (said[(body.seed ?? 0) - 40] ?? 500)))

  test.each([
    ['mean', ['[[2]]', '[[4]]', '[[9]]'], 5],
    ['median', ['[[2]]', '[[4]]', '[[9]]'], 4],
    ['median', ['[[2]]', '[[4]]', '[[5]]', '[[9]]'], 4.5],
    ['majority', ['[[2]]', '[[4]]', '[[4.0]]'], 4],
    // One of three votes failed, so the score is the mean of the other two.
    ['mean', ['[[2]]', 'hm', '[[4]]'], 3],
    ['mean', ['[[2]]', 400, '[[4]]'], 3],
  ] as const)('%s of %j: %d', async (combine, said, score) => {
    const { harness, server } = await voters([...said])
    const outcome = await judge(harness, voting(said.length, combine))
    expect(outcome).toMatchObject({ ok: true, score })
    const votes = server.calls.filter((call) => !isCanary(JSON.parse(call.body)))
    expect(votes).toHaveLength(said.length)
    expect(outcome.replies.map(({ vote }) => vote)).toEqual(said.map((_, at) => at))
  })

  test('fail unless more than half can be read, with the most frequent reason', async () => {
    const half = await voters(['[[2]]', 'hm', '[[4]]', 'well'])
    expect(await judge(half.harness, voting(4, 'mean'))).toMatchObject({
      ok: false,
      reason: 'unparseable',
      detail: '2 of 4 votes could be read; no verdict in the reply',
    })
    const refused = await voters([400, 400, 'hm'])
    const outcome = await judge(refused.harness, voting(3, 'mean'))
    expect(outcome).toMatchObject({ ok: false, reason: 'rejected' })
    expect(outcome.replies.map(({ content }) => content)).toEqual([null, null, 'hm'])
  })

  test('votes without a majority give no score', async () => {
    const { harness } = await voters(['[[2]]', '[[4]]', '[[9]]'])
    expect(await judge(harness, voting(3, 'majority'))).toMatchObject({
      ok: false,
      reason: 'unparseable',
      detail: 'no majority: 2, 4, 9 have 1 votes each',
    })
  })
})

describe('a pair', () => {
  const pair: JudgeTemplateInput = {
    name: 'compare',
    kind: 'pair',
    turns: [{ role: 'user', content: '{prompt}\nA: {response_a}\nB: {response_b}' }],
    parser: { kind: 'verdict' },
    pair: { against: 'extra.baseline' },
  }
  const compared = { ...sample, solutionStr: 'ours', extraInfo: { baseline: 'theirs' } }
  const shownFirst = (body: ChatBody) => /A: (\w+)/.exec(body.messages[0]?.content ?? '')?.[1]

  async function compare(say: (first: string) => string, over: Partial<JudgeTemplateInput> = {}) {
    const { harness, server } = await judgeThat((_, body) => say(shownFirst(body) ?? ''))
    const outcome = await judge(harness, { ...pair, ...over }, { sample: compared })
    return { outcome, calls: server.calls.length }
  }

  test('is judged in both orders, and the winner of both wins', async () => {
    const won = await compare((first) => (first === 'ours' ? '[[A]]' : '[[B]]'))
    expect(won).toMatchObject({ outcome: { ok: true, score: 1 }, calls: 2 })
    expect(won.outcome.replies.map(({ swapped, side }) => [swapped, side])).toEqual([
      [false, 'response'],
      [true, 'response'],
    ])
    const lost = await compare((first) => (first === 'ours' ? '[[B]]' : '[[A]]'))
    expect(lost.outcome).toMatchObject({ ok: true, score: 0 })
  })

  test('a verdict that depends on the order is a tie', async () => {
    const { outcome } = await compare(() => 'The first. [[A]]')
    expect(outcome).toMatchObject({ score: 0.5, extra: { judge_inconsistent_votes: 1 } })
    const half = await compare((first) => (first === 'ours' ? '[[A]]' : '[[C]]'))
    expect(half.outcome).toMatchObject({ score: 0.5 })
    const tie = await compare(() => '[[C]]')
    expect(tie.outcome).toMatchObject({ score: 0.5, extra: { judge_inconsistent_votes: 0 } })
  })

  test('a pair of which one order cannot be read is not a vote', async () => {
    const { outcome } = await compare((first) => (first === 'ours' ? '[[A]]' : 'hm'))
    expect(outcome).toMatchObject({ ok: false, reason: 'unparseable' })
    expect(outcome.replies.map(({ content }) => content)).toEqual(['[[A]]', 'hm'])
  })

  test('without the swap it is judged once', async () => {
    const template = { pair: { against: 'extra.baseline', swap: false } }
    const { outcome, calls } = await compare(() => '[[A]]', template)
    expect(outcome).toMatchObject({ ok: true, score: 1 })
    expect(calls).toBe(1)
  })
})

describe('templates', () => {
  const problems = (over: Partial<JudgeTemplateInput>) => {
    const parsed = JudgeTemplate.safeParse({ ...single, ...over })
    return parsed.success ? [] : parsed.error.issues.map(({ message }) => message)
  }
  const turn = (content: string) => ({ turns: [{ role: 'user' as const, content }] })

  test.each([
    [turn('{respnse}'), /did you mean \{response\}/],
    [turn('{answer} {response}'), /did you mean \{response\}/],
    [turn('{question} {response}'), /did you mean \{prompt\}/],
    [turn('{{response}} {response}'), /one brace on each side/],
    [turn('{{ prompt }} {response}'), /one brace on each side/],
    [turn('{candidate} {response}'), /as text, write \{ candidate \}/],
    [turn('{prompt}'), /would not see it/],
    [turn('{response_a} {response}'), /did you mean \{response\}/],
    [{ kind: 'pair', parser: { kind: 'verdict' } }, /did you mean \{response_a\}/],
    [{ votes: { k: 5 } }, /5 votes at temperature 0 are equal/],
    [
      { votes: { k: 3 }, sampling: { temperature: 1 }, parser: { kind: 'yes_no' } },
      /same probabilities/,
    ],
    [{ parser: { kind: 'bracketed', min: 5, max: 5 } }, /min must be below max/],
    [
      { parser: { kind: 'json', schema: { not: { type: 'string' } } } },
      /^replies cannot be checked against this schema: "not" is not supported$/,
    ],
    [
      { turns: [...single.turns, { role: 'assistant', content: 'Sure' }] },
      /last turn must not be the assistant/,
    ],
  ] satisfies [Partial<JudgeTemplateInput>, RegExp][])('%j is refused', (over, message) => {
    expect(problems(over).join('\n')).toMatch(message)
  })

  test('braces that are JSON or LaTeX are text', () => {
    const text = 'Say {"score": 1} or \\boxed{True}, \\frac{a}{b}, {x}: {response}'
    expect(problems(turn(text))).toEqual([])
  })

  test('the built-in templates are valid', () => {
    expect([...BUILTIN_JUDGES.keys()]).toHaveLength(4)
  })
})

test('the mean of votes has no rounding error', () => {
  const votes = [0.5, 1, 1, 1, 1, 1.5]
  expect(combineVotes(votes, 'mean')).toEqual({ ok: true, value: 1 })
})

test('the mean and the median of equal votes are the vote, without a rounding error', () => {
  for (let k = 1; k <= 64; k++) {
    for (const combine of ['mean', 'median'] as const) {
      const votes = new Array<number>(k).fill(1)
      expect(combineVotes(votes, combine)).toEqual({ ok: true, value: 1 })
    }
  }
})
