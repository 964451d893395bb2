import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { openFetch } from '../../server/engines/engine-fetch.ts'
import { engineOf } from '../../server/engines/registry.ts'
import { createRewardRouter } from '../../server/router/reward-router.ts'
import type { RouterServer } from '../../server/router/router-types.ts'
import type { Sample } from '../service/rollouts.ts'
import { waitFor } from '../service/wait-for.ts'
import { scoreBy } from '../simulated-rm/testing/ask.ts'
import {
  ended,
  messagesOf,
  reasonsOf,
  referenceOf,
  samplesOf,
  submit,
  type WrittenAs,
} from './batches.ts'
import type { Release } from './cache.ts'
import { type Check, type CheckContext, messageOf, must, restart } from './checks.ts'
import { type ReferenceRequest, referenceLogits } from './reference.ts'

/** Maximum difference from transformers' logits that float32 rounding explains. */
export const MAX_EXACT = 1e-4
const SCORED = 300
const KILLED = 1_500

/** The server's row in the database, for fields that `servers.get` omits. */
async function rowOf({ service, server }: CheckContext): Promise<{ route: RouterServer['route'] }> {
  const [row] = await service.sql<{ route: RouterServer['route'] }>(
    'select route from server where name = $1',
    [server],
  )
  must(row !== undefined, 'the server is not registered')
  return row as { route: RouterServer['route'] }
}

export function detection(route: RouterServer['route']): Check {
  return {
    name: 'detection',
    async run(context) {
      const { release } = context
      const { engine, version, state, stateCause, kind, maxModelLen } = await context.get()
      const found = (await rowOf(context)).route ?? null
      must(engine === release.engine, `engine ${engine}`)
      // Only vLLM's version is compared, because llama.cpp's wheel has its own build numbers.
      if (engine === 'vllm') must(version === release.version, `version ${version}`)
      must(found === route, `found route ${found} instead of ${route}`)
      must(state === 'ready', `${state}: ${stateCause}`)
      const { maxModelLen: served = 1024 } = context.engine.serving
      must(maxModelLen === served, `max context ${maxModelLen}, not ${served}`)
      return `${engine} ${version}, ${kind}, route ${found ?? 'by chat'}, ${maxModelLen} tokens`
    },
  }
}

const CALIBRATION = {
  prompt: 'What is the capital of France, and on which river does it lie?',
  response: 'The capital of France is Paris. It lies on the river Seine.',
}

export function selfTest(as: WrittenAs, verdict: string, tolerance = MAX_EXACT): Check {
  return {
    name: 'self-test',
    async run(context) {
      const { selfTest: found } = await context.get()
      must(found !== null, 'the server has no self-test')
      const { verdict: given, raw, detail } = found as NonNullable<typeof found>
      must(given === verdict, `${given}: ${detail}`)
      const sample = { uid: '', dataSource: '', ...CALIBRATION }
      const [reference] = await referenceLogits(context.release, context.model, [
        referenceOf(sample, as),
      ])
      const logit = reference?.logits.at(-1) as number
      const difference = Math.abs((raw ?? Number.NaN) - logit)
      must(difference < tolerance, `scored ${raw}, the model's logit is ${logit}`)
      return `${given}, ${figure(difference)} from the logit`
    },
  }
}

export function scores(as: WrittenAs, tolerance = MAX_EXACT): Check {
  return {
    name: 'scores',
    async run(context) {
      const { service, model, pool } = context
      const samples = samplesOf(SCORED, `scores-${model}`)
      const { results } = await ended(service, await submit(service, pool, samples))
      const references = await referenceLogits(
        context.release,
        model,
        samples.map((sample) => referenceOf(sample, as)),
      )
      const missing = results.score.filter((score) => score === null).length
      must(missing === 0, `${missing} of ${SCORED} have no score: ${reasonsOf(results)}`)
      const differences = references.map(({ logits }, i) =>
        Math.abs((results.score[i] as number) - (logits.at(-1) as number)),
      )
      const most = Math.max(...differences)
      const wrong = differences.filter((difference) => difference >= tolerance).length
      const worst = differences.indexOf(most)
      must(
        wrong === 0,
        `${wrong} of ${SCORED} differ, the worst is ${results.score[worst]} for ${references[worst]?.logits.at(-1)}`,
      )
      const spread =
        Math.max(...(results.score as number[])) - Math.min(...(results.score as number[]))
      must(spread > 100 * most, `the scores lie within ${figure(spread)}`)
      return `${SCORED} equal, at most ${figure(most)} off`
    },
  }
}

export function tokenCounts(as: WrittenAs): Check {
  return {
    name: 'token counts',
    async run(context) {
      const { engine, version } = await context.get()
      const { route } = await rowOf(context)
      const samples = samplesOf(20, `tokens-${context.model}`)
      const references = await referenceLogits(
        context.release,
        context.model,
        samples.map((sample) => referenceOf(sample, as)),
      )
      for (const [i, sample] of samples.entries()) {
        const input = { prompt: sample.prompt, response: sample.response } as never
        const target = { model: context.model, version, ...(route ? { route } : {}) }
        const answer = await scoreBy(engine, context.engine, input, target)
        must(answer.ok, `no score: ${answer.ok ? '' : answer.detail}`)
        const counted = answer.ok ? answer.promptTokens : undefined
        const { tokens } = references[i] as { tokens: number }
        must(counted === tokens, `${counted} tokens counted, transformers has ${tokens}`)
      }
      return '20 texts with equal token counts'
    },
  }
}

export const tooLong: Check = {
  name: 'texts too long',
  async run({ service, model, pool }) {
    const samples = samplesOf(60, `long-${model}`)
    const isLong = (i: number) => i % 10 === 7
    samples.forEach((sample, i) => {
      if (isLong(i)) sample.response = 'one two three '.repeat(900 + i)
    })
    const { results } = await ended(service, await submit(service, pool, samples))
    const wrong = results.reason.findIndex(
      (reason, i) => reason !== (isLong(i) ? 'context_exceeded' : null),
    )
    must(wrong === -1, `sample ${wrong} ended as ${results.reason[wrong]}: ${reasonsOf(results)}`)
    return '6 context_exceeded, 54 scored'
  },
}

export const wrongModel: Check = {
  name: 'wrong model',
  async run({ service, engine }) {
    const fields = { name: 'wrong-model', url: engine.url, model: 'nope' }
    try {
      await service.api.servers.register.mutate(fields)
    } catch (error) {
      const { reason } = (error as { data?: { reason?: string } }).data ?? {}
      must(reason === 'model_not_served', `refused as ${reason}: ${messageOf(error)}`)
      return messageOf(error)
    }
    await service.api.servers.remove.mutate({ name: 'wrong-model' })
    throw new Error('registered')
  },
}

export const load: Check = {
  name: 'load signals',
  async run(context) {
    const { service, model, pool, engine } = context
    const { fetch, close } = openFetch(engine.url, null, { timeoutMs: 20_000 })
    const { readLoad } = engineOf(engine.serving.release.engine)
    try {
      const batchId = await submit(service, pool, samplesOf(600, `load-${model}`))
      let most = { reported: 0, counted: 0 }
      for (;;) {
        const reported = await readLoad(fetch, '')
        must(reported !== null, 'the load could not be read during the batch')
        const { inFlight } = await context.get()
        const sum = (reported?.running ?? 0) + (reported?.waiting ?? 0)
        most = { reported: Math.max(most.reported, sum), counted: Math.max(most.counted, inFlight) }
        const { status } = await service.api.batches.get.query({ batchId })
        if (status !== 'running') break
      }
      must(most.reported > 0, 'the engine never reported any load')
      must(most.counted > 0, 'the service never counted a request in flight')
      const idle = await waitFor('an idle engine', async () => {
        const reported = await readLoad(fetch, '')
        return (
          reported?.running === 0 && reported.waiting === 0 && (await context.get()).inFlight === 0
        )
      })
      must(idle, 'not idle')
      return `at most ${most.reported} requests reported, ${most.counted} counted; none at idle`
    } finally {
      close()
    }
  },
}

export const killed: Check = {
  name: 'engine killed mid-batch',
  async run(context) {
    const { service, model, pool, engine } = context
    const samples = samplesOf(KILLED, `killed-${model}`)
    const batchId = await submit(service, pool, samples)
    const before = await waitFor(
      'a tenth of the batch',
      async () => {
        const { scored } = await service.api.batches.get.query({ batchId })
        return scored >= KILLED / 10 && scored
      },
      300_000,
    )
    await engine.killCompute()
    // The reaction time of an operator, during which the dead server receives requests.
    await sleep(15_000)
    const stayedUp = engine.isRunning
    await restart(engine)
    const { results } = await ended(service, batchId)
    const failed = reasonsOf(results)
    must(failed === '', `${failed} of ${KILLED} (killed at ${before} scored)`)
    return `all ${KILLED} scored, killed at ${before}; the server's process ${stayedUp ? 'stayed up' : 'ended'}`
  },
}

/**
 * Checks that the server sleeps, or that the service reports why it cannot. Also checks that the server's scores are
 * the same after waking.
 */
export const sleepAndWake: Check = {
  name: 'sleep and wake',
  async run(context) {
    const { service, model, pool, server, engine } = context
    const samples = () => samplesOf(20, `sleep-${model}`)
    const score = async () => (await ended(service, await submit(service, pool, samples()))).results
    const before = await score()
    const refusal = await service.api.servers.sleep.mutate({ name: server }).then(
      () => null,
      (error) => messageOf(error),
    )
    const { body } = await request(`${engine.url}/is_sleeping`)
    const { is_sleeping: isAsleep } = (await body.json()) as { is_sleeping: boolean }
    const { state } = await context.get()
    must((state === 'sleeping') === isAsleep, `the service says ${state}, the server ${isAsleep}`)
    must(isAsleep || refusal !== null, 'the server did not fall asleep, and no error was returned')
    if (isAsleep) await service.api.servers.wake.mutate({ name: server, awakeForMs: 600_000 })
    else await service.api.servers.resume.mutate({ name: server }).catch(() => {})
    await waitFor('a server that is ready', async () => (await context.get()).state === 'ready')
    const after = await score()
    // The engine's batching of texts changes the last digits of scores.
    const differences = before.score.map((value, i) =>
      Math.abs((value ?? Number.NaN) - (after.score[i] ?? Number.NaN)),
    )
    must(
      differences.every((difference) => difference < MAX_EXACT),
      `scores differ by ${figure(Math.max(...differences))} after it woke: ${reasonsOf(after)}`,
    )
    return isAsleep
      ? 'slept and woke, scores unchanged'
      : `cannot sleep; the service answers: ${refusal}`
  },
}

/** Checks the scores and the number of requests when micro-batching is used by a router that always counts as busy. */
export const microBatching: Check = {
  name: 'micro-batching',
  async run(context) {
    const { engine, model } = context
    const { version, engine: name } = await context.get()
    const { route } = await rowOf(context)
    const router = createRewardRouter({
      patienceMs: 60_000,
      microBatching: {
        isBusy: () => true,
        workMs: Number.POSITIVE_INFINITY,
        slowMs: Number.POSITIVE_INFINITY,
        splitChecks: Number.POSITIVE_INFINITY,
      },
    })
    try {
      const chatTemplate = JSON.stringify({ chat_template: TEMPLATE })
      router.setServers([
        {
          ...{ id: 1, name: 'rm', url: engine.url, engine: name, model, version, weight: 1 },
          ...{ maxInFlight: 64, apiKey: null, state: 'ready', chatTemplate },
          ...(route ? { route } : {}),
        },
      ])
      router.setSlots(1, 64)
      const scoreAll = (samples: ReturnType<typeof samplesOf>) =>
        Promise.all(
          samples.map(({ prompt, response }) =>
            router.score({
              ...{ model, timeoutMs: 600_000, maxAttempts: 4, group: 'g' },
              input: { prompt, response } as never,
            }),
          ),
        )
      // Samples are sent singly until the server's speed is known.
      const samples = samplesOf(400, `bundles-${model}`)
      await scoreAll(samplesOf(128, `known-${model}`))
      const before = await callsOf(engine.url)
      const results = await scoreAll(samples)
      const calls = (await callsOf(engine.url)) - before
      const references = await referenceLogits(
        context.release,
        model,
        samples.map((sample) => templated(sample, context.release)),
      )
      results.forEach((result, i) => {
        must(result.ok, `no score: ${result.ok ? '' : result.detail}`)
        const logit = references[i]?.logits.at(-1) as number
        const score = result.ok ? result.score : Number.NaN
        must(Math.abs(score - logit) < MAX_EXACT, `${score} for the logit ${logit}`)
      })
      must(calls < samples.length / 2, `${calls} calls for ${samples.length} samples`)
      return `${samples.length} samples in ${calls} calls, all equal`
    } finally {
      await router.close()
    }
  },
}

/** The reference request for a sample as templated text. The tokenizer of vLLM 0.11.0 adds a BOS to every text. */
function templated(sample: Sample, { version }: Release): ReferenceRequest {
  return { messages: messagesOf(sample), special: version === '0.11.0' }
}

/** Template of the tiny models, as models.py writes it. */
const TEMPLATE =
  "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"

async function callsOf(url: string): Promise<number> {
  const { body } = await request(`${url}/metrics`)
  const lines = (await body.text()).match(/^http_requests_total\{handler="\/classify".*$/gm) ?? []
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

export const chatTemplate: Check = {
  name: 'chat template',
  async run({ service, model, pool, engine, release, server, register }) {
    // The stage's server is removed, because servers that render texts differently do not count as replicas, and one of
    // them would be quarantined.
    await service.api.servers.remove.mutate({ name: server })
    const name = `${server}-template`
    const fields = { name, url: engine.url, chatTemplate: { chat_template: TEMPLATE } }
    try {
      const { state, stateCause } = await service.api.servers.register.mutate(fields)
      must(state === 'ready', `${state}: ${stateCause}`)
      const samples = samplesOf(40, `template-${model}`)
      const { results } = await ended(service, await submit(service, pool, samples))
      const references = await referenceLogits(
        release,
        model,
        samples.map((sample) => templated(sample, release)),
      )
      references.forEach(({ logits }, i) => {
        const difference = Math.abs((results.score[i] ?? Number.NaN) - (logits.at(-1) as number))
        must(difference < MAX_EXACT, `${results.score[i]} for the logit ${logits.at(-1)}`)
      })
      return '40 scores equal'
    } finally {
      await service.api.servers.remove.mutate({ name }).catch(() => {})
      await register()
    }
  },
}

function figure(value: number): string {
  return value.toExponential(1)
}
