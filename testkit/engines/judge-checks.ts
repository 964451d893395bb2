import type { Submit } from '../service/rollouts.ts'
import { ended, reasonsOf, samplesOf, submit } from './batches.ts'
import { type Check, type CheckContext, messageOf, must } from './checks.ts'

const COUNT = 24

const TURNS = [{ role: 'user', content: 'Rate the answer {response} to {prompt}.' }]
const SCHEMA = {
  type: 'object',
  properties: { score: { type: 'integer', minimum: 1, maximum: 5 } },
  required: ['score'],
  additionalProperties: false,
}

type Reward = NonNullable<Submit['reward']>

async function judged({ service, model, pool }: CheckContext, judge: Reward['judge']) {
  const samples = samplesOf(COUNT, `judge-${model}`)
  const batchId = await submit(service, pool, samples, { judge })
  const { results } = await ended(service, batchId)
  const failed = results.reason.findIndex((reason) => reason !== null)
  let why = ''
  if (failed >= 0) {
    const id = `${batchId}-${failed}`
    const { attemptLog } = await service.api.samples.get.query({ id })
    why = JSON.stringify(attemptLog.at(-1))
  }
  return { results, why }
}

export const probability: Check = {
  name: 'judge, P(Yes) = 0.75',
  async run(context) {
    const { results, why } = await judged(context, 'yes-no')
    must(reasonsOf(results) === '', `${reasonsOf(results)}: ${why}`)
    const most = Math.max(...results.score.map((score) => Math.abs((score as number) - 0.75)))
    must(most < 1e-3, `${most} off`)
    return `${COUNT} scored, at most ${most.toExponential(1)} off`
  },
}

export const jsonSchema: Check = {
  name: 'judge, JSON schema',
  async run(context) {
    const { results, why } = await judged(context, {
      ...{ name: 'engines-json', turns: TURNS, sampling: { maxTokens: 64 } },
      parser: { kind: 'json', path: 'score', schema: SCHEMA },
    })
    const outside = results.score.find((score) => score !== null && (score < 1 || score > 5))
    must(outside === undefined, `scored ${outside}`)
    must(why === '' || /blank/i.test(why), `${reasonsOf(results)}: ${why}`)
    return why === '' ? `${COUNT} scored from 1 to 5` : `${reasonsOf(results)}, reported as blank`
  },
}

/** Checks a `maxTokens` beyond the context: replies use the rest of the context, or the failure names the setting. */
export const maxTokens: Check = {
  name: 'judge, max_tokens too large',
  async run(context) {
    const { results, why } = await judged(context, {
      ...{ name: 'engines-max', turns: TURNS, sampling: { maxTokens: 1024 } },
      parser: { kind: 'yes_no' },
    })
    must(!results.reason.includes('context_exceeded'), `reported as context_exceeded: ${why}`)
    must(why === '' || /max_?tokens/i.test(why), `${reasonsOf(results)}: ${why}`)
    return why === '' ? `${COUNT} scored` : 'refused with the name of the setting, maxTokens'
  },
}

/** Checks that a model without chat is refused as a judge, or registered and not ready. */
export const noJudge: Check = {
  name: 'scorer as a judge',
  async run({ service, engine, server, register }) {
    // The scorer is removed first, because one model as both scorer and judge is refused for another reason.
    await service.api.servers.remove.mutate({ name: server })
    const name = 'no-judge'
    try {
      const { state, stateCause } = await service.api.servers.register.mutate({
        name,
        url: engine.url,
        kind: 'generative',
      })
      must(state !== 'ready', 'registered and ready')
      return `${state}: ${stateCause}`
    } catch (error) {
      if ((error as { data?: { reason?: string } }).data?.reason === undefined) throw error
      return `refused: ${messageOf(error)}`
    } finally {
      await service.api.servers.remove.mutate({ name }).catch(() => {})
      await register()
    }
  },
}
