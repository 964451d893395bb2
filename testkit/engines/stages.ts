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
 * llama.cpp computes GELU from a half-precision table, so its logits differ from transformers' by a few 1e-4 even in
 * float32. The cross-encoder's scores of different texts are 0.01 to 0.1 apart, so this tolerance still detects wrong
 * scores.
 */
const HALF_PRECISION = 2e-3

/** Appends the model to the names of checks, because docs/engines.md lists the checks by model. */
function of(model: string, checks: Check[]): Check[] {
  return checks.map((check) => ({ ...check, name: `${check.name} (${model})` }))
}

export function stagesOf(release: Release): Stage[] {
  return release.engine === 'vllm' ? vllmStages(release) : LLAMACPP
}

function vllmStages(release: Release): Stage[] {
  const isOld = release.version === '0.11.0'
  // A release without messages on /classify receives the prompt, a newline and the response as one text.
  const as = isOld ? 'text' : 'messages'
  const canSleep = !isOld
  // Raw scores of 0.14.0 omit the activation of BERT's pooler.
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

/** Checks that a server whose score is 1.0 for every text (a softmax over one label) gets no traffic. */
const constantHead: Check = {
  name: 'unsupported model kept from traffic, with the reason',
  async run({ get }) {
    const detail = await get().catch(() => null)
    if (detail === null) return 'not registered'
    const { state, stateCause, selfTest: found } = detail
    const reported = `${stateCause ?? ''} ${found?.detail ?? ''}`
    must(state !== 'ready', `ready, self-test ${found?.verdict}: ${found?.detail}`)
    must(
      /same|equal|alike|every text|constant/i.test(reported),
      `${state}, but reported: ${reported}`,
    )
    return `${state}: ${reported.trim()}`
  },
}

/** Checks that a server whose raw scores do not match the activated scores gets no traffic. */
const unrelatedScores: Check = {
  name: 'unsupported model quarantined, with the reason',
  async run({ get }) {
    const { state, selfTest: found } = await get()
    must(state !== 'ready', `ready, self-test ${found?.verdict}: ${found?.detail}`)
    must(/not the sigmoids/.test(found?.detail ?? ''), `${state}, with ${found?.detail}`)
    return `${state}: ${found?.detail}`
  },
}

/** Checks that the service reports scores that are probabilities (a softmax over two labels) as such. */
const probabilityHead: Check = {
  name: 'probabilities reported at registration',
  async run({ get }) {
    const { state, stateCause, selfTest: found, warnings } = await get()
    const reported = [stateCause, found?.detail, ...warnings].filter(Boolean).join(' ')
    must(
      /softmax|probabilit|bounded|0 (?:to|and) 1/i.test(reported),
      `${state}; reported: ${reported}`,
    )
    return `${state}: ${reported}`
  },
}

/** Checks that the service reports how prompt and response are joined, because llama.cpp adds no separator. */
const concatenated: Check = {
  name: 'joining of prompt and response reported',
  async run({ get }) {
    const { warnings, selfTest: found } = await get()
    const reported = [...warnings, found?.detail].filter(Boolean).join(' ')
    must(/rerank|concatenat|template|joined/i.test(reported), `reported: ${reported}`)
    return reported
  },
}

/**
 * Checks that the self-test of a model with raw scores allows traffic, and that the server returns the model's logits.
 */
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
