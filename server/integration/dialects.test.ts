import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { Service } from '../../testkit/service/service.ts'
import {
  leaveShared,
  sharedService,
  stopCleanly,
} from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'

const KEY = 'pT4wZ81mQx7RkV0s9LcB'
let open: Service
let keyed: Service

beforeAll(async () => {
  ;[{ service: open }, keyed] = await Promise.all([
    sharedService(),
    Service.start({ env: { REWARDOPS_WORKERS: '0', REWARDOPS_API_KEYS: KEY } }),
  ])
})

afterAll(() => Promise.all([leaveShared(open), stopCleanly(keyed)]))

const post = (path: string, body: unknown, headers: Record<string, string> = {}, service = open) =>
  service.raw(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  })

const PROMPT = '<|user|>48 + 24?<|assistant|>'
const RIGHT = 'It is\n#### 72<|end|>'
const gsm8k = '?dataSource=openai/gsm8k'

const CASES = [
  {
    name: 'openrlhf',
    path: (run: string) => `/compat/openrlhf/${run}`,
    ask: (response: string, label: unknown) => ({
      query: [`${PROMPT}${response}`],
      prompts: [PROMPT],
      labels: [label],
    }),
    reward: (answer: never) => (answer as { rewards: number[] }).rewards[0],
  },
  {
    name: 'slime',
    path: (run: string) => `/compat/slime/${run}`,
    ask: (response: string, label: unknown) => ({ prompt: PROMPT, response, label }),
    reward: (answer: never) => answer as number,
  },
  {
    name: 'nemo-gym',
    path: (run: string) => `/compat/nemo-gym/${run}/verify`,
    ask: (response: string, label: unknown) => ({
      responses_create_params: { input: [{ role: 'user', content: PROMPT, type: 'message' }] },
      response: {
        id: 'resp_1',
        created_at: 1785485486,
        model: 'm',
        object: 'response',
        parallel_tool_calls: true,
        tool_choice: 'auto',
        tools: [],
        output: [
          { type: 'reasoning', id: 'r', summary: [] },
          {
            type: 'message',
            id: 'm',
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text: response, annotations: [] }],
          },
        ],
      },
      expected_answer: label,
    }),
    reward: (answer: never) => (answer as { reward: number }).reward,
  },
]

describe.each(CASES)('$name', ({ name, path, ask, reward }) => {
  it('scores correct and incorrect responses, and stores the samples', async () => {
    const run = `${name}-usual`
    for (const [response, score] of [
      [RIGHT, 1],
      ['#### 71', 0],
    ] as const) {
      const answer = await post(`${path(run)}${gsm8k}`, ask(response, '72'))
      expect(answer.status, answer.text).toBe(200)
      expect(answer.headers['content-type']).toBe('application/json')
      expect(reward(JSON.parse(answer.text) as never)).toBe(score)
    }
    const { items } = await open.api.batches.list.query({ run })
    expect(items).toMatchObject([{ step: 1, samples: 2, groups: 1, scored: 2 }])
    const results = await open.api.batches.results.query({ batchId: items[0]!.batchId })
    expect(results.score).toEqual([1, 0])
    expect(new Set(results.uid).size).toBe(1)
    const sample = await open.api.samples.get.query({ id: `${items[0]!.batchId}-0` })
    expect(JSON.stringify(sample)).toContain('48 + 24?')
    expect(sample).toMatchObject({ response: RIGHT, groundTruth: '72' })
  })

  it('accepts a gzipped body', async () => {
    const packed = gzipSync(JSON.stringify(ask(RIGHT, '72')))
    const answer = await post(`${path(`${name}-gzip`)}${gsm8k}`, packed, {
      'content-encoding': 'gzip',
    })
    expect(reward(JSON.parse(answer.text) as never)).toBe(1)
  })

  it('never answers a failure with a plausible score', async () => {
    // The sample fails, because the rule needs a ground truth.
    const body = ask(RIGHT, null)
    const answer = await post(`${path(`${name}-failing`)}${gsm8k}`, body)
    if (name === 'nemo-gym') {
      expect(JSON.parse(answer.text)).toMatchObject({
        reward: 0,
        _ng_failure_class: 'judge_failed',
        _ng_failure_judge_error: expect.stringMatching(/^function_error: groundTruth is missing/),
      })
      return
    }
    expectRefusal(answer, {
      status: 503,
      reason: 'not_scored',
      message: 'function_error',
      hint: /onFailure/,
    })
    const instead = await post(
      `${path(`${name}-instead`)}${gsm8k}&onFailure=-0.5&format=object`,
      body,
    )
    expect(instead.status, instead.text).toBe(200)
    expect(JSON.parse(instead.text)).toMatchObject(
      name === 'slime'
        ? { score: -0.5, rm_failed: 1 }
        : { rewards: [-0.5], extra_logs: { rm_failed: [1] } },
    )
    const { items } = await open.api.batches.list.query({ run: `${name}-instead` })
    const { substituted } = await open.api.batches.results.query({ batchId: items[0]!.batchId })
    expect(substituted).toEqual([true])
  })

  it('names the problem of an invalid URL or body', async () => {
    const at = path(`${name}-wrong`)
    const usual = ask(RIGHT, '72')
    const sent = (query: string, body: unknown = usual) => post(`${at}${query}`, body)
    expectRefusal(await sent(''), {
      status: 400,
      reason: 'invalid_input',
      message: 'names no reward',
      hint: /\?model=/,
    })
    expectRefusal(await sent('?modell=x'), {
      status: 400,
      reason: 'invalid_input',
      message: 'Did you mean model?',
    })
    expectRefusal(await sent('?model=a&rule=b'), {
      status: 400,
      reason: 'invalid_input',
      message: 'one of them',
    })
    expectRefusal(await sent('?model=missing'), {
      status: 400,
      reason: 'unknown_model',
      message: 'missing',
    })
    expectRefusal(await sent('?dataSource=nothing'), {
      status: 400,
      reason: 'unknown_data_source',
      message: 'openai/gsm8k',
    })
    expectRefusal(await sent(gsm8k, '{'), {
      status: 400,
      reason: 'malformed_json',
      message: 'body',
    })
    expectRefusal(await sent(gsm8k, {}), {
      status: 400,
      reason: 'invalid_input',
      message: 'is missing',
    })
    expectRefusal(await sent(gsm8k, [1]), {
      status: 400,
      reason: 'invalid_input',
      message: 'object',
    })
    expectRefusal(await post(`${at.replace(`${name}-wrong`, 'a%00b')}${gsm8k}`, usual), {
      status: 400,
      reason: 'invalid_input',
      message: 'run: must not contain NUL',
    })
    expectRefusal(await open.raw(`${at}${gsm8k}`), {
      status: 405,
      reason: 'method_not_allowed',
      message: 'POST',
    })
    expectRefusal(await post(`${at}/more${gsm8k}`, usual), {
      status: 404,
      reason: 'not_found',
      message: '/more',
    })
  })

  it('accepts the key in the path, because some trainers cannot send headers', async () => {
    const [, compat, dialect, run, ...rest] = path('keyed').split('/')
    const at = (key: string) => `/${[compat, dialect, run, 'k', key, ...rest].join('/')}`
    const usual = ask(RIGHT, '72')
    const sent = (where: string, headers = {}) => post(`${where}?modell=x`, usual, headers, keyed)
    const needs = { status: 401, reason: 'unauthorized', message: 'key', hint: /\/k\// } as const
    expectRefusal(await sent(path('keyed')), needs)
    expectRefusal(await sent(at(`${KEY}x`)), needs)
    expectRefusal(await sent(at(KEY)), { status: 400, reason: 'invalid_input', message: 'modell' })
    expectRefusal(await sent(path('keyed'), { authorization: `Bearer ${KEY}` }), {
      status: 400,
      reason: 'invalid_input',
      message: 'modell',
    })
  })
})

describe('openrlhf', () => {
  const at = `/compat/openrlhf/lists${gsm8k}`

  it('answers empty lists, which OpenRLHF sends to further URLs, with empty lists', async () => {
    const answer = await post(at, { query: [], prompts: [], labels: [] })
    expect(JSON.parse(answer.text)).toEqual({
      rewards: [],
      scores: [],
      extra_logs: { rm_failed: [] },
    })
  })

  it('answers whole batches in their order, with the same keys for every sample', async () => {
    const n = 300
    const query = Array.from({ length: n }, (_, i) => `${PROMPT}#### ${i % 3 === 0 ? 72 : i}`)
    const answer = await post(`${at}&extra=acc;format_ok`, {
      query,
      prompts: query.map(() => PROMPT),
      labels: query.map(() => '72'),
    })
    const { rewards, scores, extra_logs } = JSON.parse(answer.text)
    expect(rewards).toEqual(query.map((_, i) => (i % 3 === 0 || i === 72 ? 1 : 0)))
    expect(scores).toEqual(rewards)
    expect(Object.keys(extra_logs)).toEqual(['rm_failed', 'acc', 'format_ok'])
    for (const values of Object.values(extra_logs)) expect(values).toHaveLength(n)
  })

  it('adds a sample once although its request fails because of another one and is repeated', async () => {
    const run = 'repeated'
    const query = [RIGHT, '#### 71', RIGHT].map((response) => `${PROMPT}${response}`)
    const sent = (labels: (string | null)[]) =>
      post(`/compat/openrlhf/${run}${gsm8k}`, {
        query: query.slice(0, labels.length),
        prompts: labels.map(() => PROMPT),
        labels,
      })
    const count = (all: string[], one: string) => all.filter((status) => status === one).length
    const statuses = async () => {
      const { items } = await open.api.batches.list.query({ run })
      expect(items).toHaveLength(1)
      const { status } = await open.api.batches.results.query({ batchId: items[0]!.batchId })
      return { scored: count(status, 'scored'), failed: count(status, 'failed') }
    }
    // The third sample fails, because the rule needs a ground truth.
    for (let failed = 1; failed <= 3; failed++) {
      expect((await sent(['72', '72', null])).status).toBe(503)
      expect(await statuses()).toEqual({ scored: 2, failed })
    }
    const answer = await sent(['72', '72', '72'])
    expect(JSON.parse(answer.text).rewards).toEqual([1, 0, 1])
    expect(await statuses()).toEqual({ scored: 3, failed: 3 })
    // After a successful request, equal samples are new samples.
    await sent(['72', '72'])
    expect(await statuses()).toEqual({ scored: 5, failed: 3 })
  })

  it('adds a sample once although its caller disconnects and repeats the request', async () => {
    const rm = await SimulatedServer.start({ model: 'dialect-rm' })
    try {
      await open.api.servers.register.mutate({ name: 'dialect-rm', url: rm.url })
      rm.control({ latency: 'constant:1000' })
      const path = '/compat/openrlhf/interrupted?model=dialect-rm'
      const body = { query: [`${PROMPT}72`], prompts: [PROMPT], labels: ['72'] }
      const gone = new AbortController()
      const first = fetch(`${open.url}${path}`, {
        ...{ method: 'POST', body: JSON.stringify(body), signal: gone.signal },
        headers: { 'content-type': 'application/json' },
      })
      const batches = async () => (await open.api.batches.list.query({ run: 'interrupted' })).items
      await waitFor('the call', () => rm.stats().inFlight === 1)
      gone.abort()
      await expect(first).rejects.toThrow()
      // By the time the service answers another call, it has noticed the end of the connection.
      await batches()
      expect((await post(path, body)).status).toBe(200)
      expect(await batches()).toMatchObject([{ samples: 1, scored: 1 }])
    } finally {
      await open.api.servers.remove.mutate({ name: 'dialect-rm' }).catch(() => {})
      await rm.close()
    }
  })

  it('scores the whole text of a request without prompts', async () => {
    const answer = await post(at, { query: [`${PROMPT}#### 72`], labels: ['72'] })
    expect(JSON.parse(answer.text).rewards).toEqual([1])
  })
})

describe('slime', () => {
  it('answers the exact request of its client with a number, or with an object for --reward-key', async () => {
    const at = `/compat/slime/words${gsm8k}`
    const sent =
      '{"prompt": [{"role": "user", "content": "48 + 24?"}], "response": "\\u2713 #### 72", "label": "72"}'
    expect((await post(at, sent)).text).toBe('1')
    expect((await post(at, sent.replace('#### 72', '#### 7'))).text).toBe('0')
    const { score, acc, rm_failed } = JSON.parse((await post(`${at}&format=object`, sent)).text)
    expect({ score, acc, rm_failed }).toEqual({ score: 1, acc: 1, rm_failed: 0 })
  })
})

describe('nemo-gym', () => {
  const at = '/compat/nemo-gym/gym'

  it('answers the auxiliary requests of a verification', async () => {
    expect((await post(`${at}/seed_session`, {})).text).toBe('{}')
    expect((await open.raw(`${at}/reverify_mode`)).text).toBe('"stateless"')
  })

  it('aggregates verified samples and leaves out failed ones', async () => {
    const at = '/compat/nemo-gym/added-up'
    const { ask } = CASES[2] as (typeof CASES)[2]
    const verified = [
      [RIGHT, '72'],
      ['#### 71', '72'],
      [RIGHT, '72'],
      // Without a ground truth the sample fails, so its reward of 0 is left out of the metrics.
      [RIGHT, null],
    ] as const
    const verify_responses: object[] = []
    for (const [i, [response, label]] of verified.entries()) {
      const body = { ...ask(response, label), _ng_task_index: i >> 1, _ng_rollout_index: i & 1 }
      verify_responses.push(JSON.parse((await post(`${at}/verify${gsm8k}`, body)).text))
    }
    const answer = await post(`${at}/aggregate_metrics`, { verify_responses })
    const { agent_metrics, key_metrics, group_level_metrics } = JSON.parse(answer.text)
    expect(agent_metrics).toMatchObject({ 'mean/reward': 2 / 3, 'max/reward': 1, 'min/reward': 0 })
    expect(key_metrics).toMatchObject({ 'mean/reward': 2 / 3 })
    expect(group_level_metrics).toMatchObject([
      { _ng_task_index: 0, 'mean/reward': 0.5, num_rollouts: 2 },
      { _ng_task_index: 1, 'mean/reward': 1, num_rollouts: 1 },
    ])
    expectRefusal(await post(`${at}/aggregate_metrics`, {}), {
      status: 400,
      reason: 'invalid_input',
      message: 'verify_responses',
    })
  })

  it('returns the request with its reward, and groups samples by task', async () => {
    const { ask } = CASES[2] as (typeof CASES)[2]
    const body = { ...ask(RIGHT, '72'), _ng_task_index: 4, _ng_rollout_index: 1, difficulty: 'low' }
    const answer = JSON.parse((await post(`${at}/verify${gsm8k}`, body)).text)
    expect(answer).toMatchObject({ ...body, reward: 1 })
    const { items } = await open.api.batches.list.query({ run: 'gym' })
    const sample = await open.api.samples.get.query({ id: `${items[0]!.batchId}-0` })
    expect(sample).toMatchObject({ uid: 'task-4', extraInfo: { difficulty: 'low' } })
  })
})

describe('a dialect', () => {
  it('continues after the highest step of its run', async () => {
    const run = 'goes-on'
    const one = { uid: 'a', dataSource: 'openai/gsm8k', prompt: PROMPT, groundTruth: '72' }
    const samples = [{ ...one, response: RIGHT }]
    for (const step of [7, 3]) await open.api.batches.submit.mutate({ run, step, samples })
    const [, slime] = CASES
    await post(`${slime!.path(run)}${gsm8k}`, slime!.ask(RIGHT, '72'))
    const { items } = await open.api.batches.list.query({ run })
    expect(items.map(({ step }) => step).sort()).toEqual([3, 7, 8])
  })

  it('is refused with a suggestion if it is unknown, or without a run', async () => {
    expectRefusal(await post('/compat/openrhlf/x', {}), {
      status: 404,
      reason: 'not_found',
      message: 'Did you mean openrlhf?',
    })
    expectRefusal(await post('/compat/slime', {}), {
      status: 400,
      reason: 'invalid_input',
      message: 'run',
    })
  })
})
