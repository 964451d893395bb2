import type { Release } from './cache.ts'
import { type Check, must, type Stage } from './checks.ts'
import { jsonSchema, maxTokens, noJudge, probability } from './judge-checks.ts'
import {
  chatTemplate,
  detection,
  killed,
  load,
  microBatching,
  scores,
  selfTest,
  sleepAndWake,
  tokenCounts,
  tooLong,
  wrongModel,
} from './scoring-checks.ts'

/**
 * llama.cpp's GELU is a table in half precision, so that even in float32 its logits are a few 1e-4 beside transformers'.
 * The scores of the cross-encoder are 0.01 to 0.1 apart.
 */
const HALF_PRECISION = 2e-3

/** Appends the model to the names, so that the same check of two models is two cells. */
function of(model: string, checks: Check[]): Check[] {
  return checks.map((check) => ({ ...check, name: `${check.name} (${model})` }))
}

/** What is served of a release, and what must hold. */
export function stagesOf(release: Release): Stage[] {
  return release.engine === 'vllm' ? vllmStages(release) : LLAMACPP
}

function vllmStages(release: Release): Stage[] {
  const isOld = release.version === '0.11.0'
  // Without messages on /classify the text is the prompt, a newline and the response.
  const as = isOld ? 'text' : 'messages'
  const canSleep = !isOld
  // 0.14.0 leaves the activation of BERT's pooler out of raw scores.
  const isHeadless = release.version === '0.14.0'
  const judgeChecks = [detection(null), probability, jsonSchema, maxTokens]
  return [
    {
      ...{ model: 'rm1', canSleep },
      checks: of('reward model', [
        ...[detection('classify'), selfTest(as, 'raw'), scores(as), tokenCounts(as)],
        ...[tooLong, wrongModel, noJudge, load, microBatching, chatTemplate],
        ...(canSleep ? [sleepAndWake] : []),
        killed,
      ]),
    },
    // 0.11.0 cannot load Qwen2ForTokenClassification: "There is no module or parameter named 'score'".
    ...(isOld ? [] : [PROCESS_REWARD_MODEL]),
    {
      ...{ model: 'cross', maxModelLen: 512 },
      checks: of('cross-encoder', [
        ...(isHeadless
          ? [unrelatedScores, tokenCounts('pair')]
          : [
              detection('pair'),
              selfTest('pair', 'raw'),
              scores('pair'),
              tokenCounts('pair'),
              tooLong,
            ]),
      ]),
    },
    {
      ...{ model: 'yes', register: { kind: 'generative' } },
      checks: of('judge', judgeChecks),
    },
  ]
}

const PROCESS_REWARD_MODEL: Stage = {
  model: 'prm',
  checks: of('process reward model', [
    ...[detection('token'), selfTest('messages', 'raw'), scores('messages')],
    ...[tokenCounts('messages'), tooLong, noJudge],
  ]),
}

/** One label under a softmax is 1.0 for every text: no reward. */
const constantHead: Check = {
  name: 'kept out with the reason',
  async run({ get }) {
    const detail = await get().catch(() => null)
    if (detail === null) return 'not registered'
    const { state, stateCause, selfTest: found } = detail
    const told = `${stateCause ?? ''} ${found?.detail ?? ''}`
    must(state !== 'ready', `ready, self-test ${found?.verdict}: ${found?.detail}`)
    must(/same|equal|alike|every text|constant/i.test(told), `${state}, but told: ${told}`)
    return `${state}: ${told.trim()}`
  },
}

/** Raw scores that do not belong to the activated ones are not the model's logits. */
const unrelatedScores: Check = {
  name: 'quarantined with the reason',
  async run({ get }) {
    const { state, selfTest: found } = await get()
    must(state !== 'ready', `ready, self-test ${found?.verdict}: ${found?.detail}`)
    must(/not the sigmoids/.test(found?.detail ?? ''), `${state}, with ${found?.detail}`)
    return `${state}: ${found?.detail}`
  },
}

/** Two labels under a softmax are a probability where the logit was to be had: that is said, and needs consent. */
const probabilityHead: Check = {
  name: 'registered as returning probabilities',
  async run({ get }) {
    const { state, stateCause, selfTest: found, warnings } = await get()
    const told = [stateCause, found?.detail, ...warnings].filter(Boolean).join(' ')
    must(/softmax|probabilit|bounded|0 (?:to|and) 1/i.test(told), `${state}; told: ${told}`)
    return `${state}: ${told}`
  },
}

/** Prompt and response reach the model without a word between them, which has to be said. */
const concatenated: Check = {
  name: 'told how prompt and response are joined',
  async run({ get }) {
    const { warnings, selfTest: found } = await get()
    const told = [...warnings, found?.detail].filter(Boolean).join(' ')
    must(/rerank|concatenat|template|joined/i.test(told), `told: ${told}`)
    return told
  },
}

/** The head is as it is: a verdict that lets traffic through, and the model's own logit. */
const rawHead: Check = {
  name: 'self-test',
  async run(context) {
    const verdict = (await context.get()).selfTest?.verdict ?? 'none'
    must(['raw', 'not_applicable'].includes(verdict), verdict)
    return selfTest('llamacpp', verdict, HALF_PRECISION).run(context)
  },
}

const LLAMACPP: Stage[] = [
  {
    ...{ model: 'cross', kind: 'rank', maxModelLen: 512 },
    checks: of('cross-encoder', [
      ...[detection('pair'), rawHead, scores('llamacpp', HALF_PRECISION), tokenCounts('llamacpp')],
      ...[tooLong, noJudge, load, killed],
    ]),
  },
  { ...{ model: 'rank1', kind: 'rank' }, checks: of('Qwen3, one label', [constantHead]) },
  {
    ...{ model: 'rank2', kind: 'rank' },
    checks: of('Qwen3, two labels', [probabilityHead, concatenated]),
  },
  {
    ...{ model: 'yes', kind: 'chat', register: { kind: 'generative' } },
    checks: of('judge', [detection(null), probability, jsonSchema, maxTokens]),
  },
]
