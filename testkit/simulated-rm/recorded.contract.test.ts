import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  bodyOf,
  type RecordedAnswer,
  type RecordedModel,
  recordings,
} from '../../server/engines/testing/recorded.ts'
import type { ServerOptionsInput } from './options.ts'
import { SimulatedServer } from './server.ts'

/** Situations whose answers the simulation reproduces only in part. The reproduced part must match. */
const PART = /^(?:models|properties|embeddings|chat\b.*)$/

const SIMULATED = Object.freeze({
  embed: false,
  classify: true,
  token: true,
  pair: true,
  generate: true,
})

/** `--ubatch-size` of the recorded llama.cpp. */
const PHYSICAL_BATCH = 1024

describe.each(recordings())('%s', (_, { engine, version, models, answers }) => {
  const simulated = Object.entries(models).filter(([, { serves }]) => SIMULATED[serves])
  describe.each(simulated)('%s', (name, model) => {
    const recorded = answers.filter((answer) => answer.model === name)
    let server: SimulatedServer
    beforeAll(async () => {
      server = await SimulatedServer.start(optionsOf(engine, version, name, model))
    })
    afterAll(() => server.close())

    test.each(recorded.map((answer) => [answer.situation, answer] as const))(
      '%s',
      async (_, real) => {
        server.control({ faults: { engineDead: real.situation.startsWith('engine dead') ? 1 : 0 } })
        const isPart = PART.test(real.situation)
        const simulated = comparable(await answerOf(server, real), isPart)
        const expected = comparable(real, isPart)
        expect(simulated).toEqual(isPart ? restricted(expected, simulated) : expected)
      },
    )
  })
})

function optionsOf(
  engine: 'vllm' | 'llamacpp',
  version: string,
  name: string,
  { serves, labels, hasChatTemplate, maxModelLen }: RecordedModel,
): ServerOptionsInput {
  const shared = { dialect: engine, version, labels, hasChatTemplate, maxModelLen }
  if (serves === 'embed') throw new Error('embedding models are not simulated')
  // llama.cpp names a model after its file.
  if (engine === 'vllm') return { ...shared, model: name, serves }
  // The recorded `rank` models are Qwen3 models with rank heads. The other reranker is BERT, an encoder.
  const head = name.startsWith('rank')
    ? { activation: 'softmax' as const }
    : { physicalBatch: PHYSICAL_BATCH }
  return { ...shared, model: `${name}.gguf`, serves, ...head }
}

type Answer = Pick<RecordedAnswer, 'status' | 'headers' | 'text'>

async function answerOf(server: SimulatedServer, { request }: RecordedAnswer): Promise<Answer> {
  const body = bodyOf(request)
  try {
    const answer = await fetch(server.url + request.path, {
      method: request.method,
      headers: { 'content-type': request.type ?? 'application/json' },
      ...(body === undefined ? {} : { body }),
    })
    const headers = Object.fromEntries(answer.headers)
    return { status: answer.status, headers, text: await answer.text() }
  } catch {
    return { status: 0, headers: {}, text: '' }
  }
}

/** The parts of an answer that are compared: status, media type and shape, and in errors all text except counts. */
function comparable(answer: Answer, isPart: boolean) {
  const { status, text } = answer
  if (text === '') return { status }
  const type = answer.headers['content-type']?.split(';')[0]
  const value = jsonOf(text)
  if (value === undefined) return { status, type, load: text.match(LOAD_NAME)?.sort() }
  const error = (value as { error?: unknown }).error
  if (typeof error === 'object' && error !== null) {
    const message = wording(String((error as { message?: unknown }).message))
    const { code, ...rest } = error as Record<string, unknown>
    return {
      status,
      type,
      error: { ...(shapeOf(rest) as object), code, message, param: rest.param },
    }
  }
  return { status, type, shape: shapeOf(value, '', isPart) }
}

const LOAD_NAME = /^(?:vllm:num_requests_(?:running|waiting)\{|llamacpp:requests_\w+)/gm

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Replaces counts with N, and reduces validation errors to rule, field and message. */
function wording(message: string): string {
  const rules = [...message.matchAll(RULE)].map(([, type, loc = '', said]) => {
    const names = loc.match(/[^'.]+(?=['.])/g)?.filter((name) => /^[\w[\]]+$/.test(name))
    return `${type} ${names?.at(-1)} ${said}`
  })
  const head = rules.length > 0 ? [message.split('\n')[0], ...new Set(rules)].join('\n') : message
  return head.replaceAll(/\d+/g, 'N').replaceAll(/last read: .*/g, '')
}

const RULE =
  /\{'type': '(\w+)', 'loc': (\((?:[^()]|\(\))*\)|'[^']*'), 'msg': (?:'([^']*)'|"([^"]*)")/g

/** Fields whose text identifies the kind of an answer. */
const KEPT_TEXTS = new Set(['object', 'label', 'owned_by', 'role', 'type', 'status', 'version'])

/** A value without its numbers and texts. Lists keep their length, except lists of numbers and partly simulated ones. */
function shapeOf(value: unknown, key = '', isPart = false): unknown {
  if (value === null || typeof value === 'number') return value === null ? null : 'number'
  if (Array.isArray(value)) {
    if (key === 'bytes') return 'bytes'
    // A list of objects has one object per text, and `probs` has one number per label. Of other lists, only the first
    // element is compared.
    const isWhole = key === 'probs' || (typeof value[0] === 'object' && !Array.isArray(value[0]))
    return (isWhole && !isPart ? value : value.slice(0, 1)).map((e) => shapeOf(e, '', isPart))
  }
  if (typeof value === 'object') {
    const fields = Object.entries(value)
    return Object.fromEntries(fields.map(([name, at]) => [name, shapeOf(at, name, isPart)]))
  }
  if (typeof value !== 'string') return typeof value
  if (KEPT_TEXTS.has(key)) return value
  return key === 'id' ? value.replace(/-.*/, '-…') : 'string'
}

function restricted(shape: unknown, other: unknown): unknown {
  if (Array.isArray(shape) && Array.isArray(other)) {
    return shape.slice(0, other.length).map((entry, i) => restricted(entry, other[i]))
  }
  if (typeof shape !== 'object' || typeof other !== 'object' || !shape || !other) return shape
  const fields = Object.entries(other).map(([name, inner]) => [
    name,
    restricted((shape as Record<string, unknown>)[name], inner),
  ])
  return Object.fromEntries(fields)
}
