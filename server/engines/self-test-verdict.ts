import type * as wire from '../contract/self-test-verdict.ts'
import type { Calibration } from './calibration.ts'
import type { Engine, EngineTarget } from './engine.ts'

/** What one server's self-test can find; that replicas differ is found by comparing them. */
export type SelfTestVerdict = Exclude<wire.SelfTestVerdict, 'differs'>

/** Outcome of {@link rawScoreSelfTest}. */
export interface SelfTestResult {
  verdict: SelfTestVerdict
  /** The good answer's score, asked raw. */
  raw: number | null
  /** The good answer's score, asked activated; null where the engine cannot be asked so. */
  activated: number | null
  /** The score of the first calibration text; null where no fixed text can be scored. */
  calibration: number | null
  /** Of each calibration text: what replicas of a model must agree on ({@link calibrationDiffers}). */
  calibrations: Calibration[]
  /** What was seen, in a sentence for people. */
  detail: string
  /** The server has no such route (404, 405): it is another engine than it is taken for. */
  routeMissing?: true
}

/** Scores this close are the same one: batching moves the last digits of a bfloat16 model. */
const SAME = 1e-3

/** Scores of the right and the wrong answer. */
export interface Pair {
  good: number
  bad: number
}

/** A verdict with what was seen. */
export interface Judgement {
  verdict: SelfTestVerdict
  detail: string
}

/** Of engines where 0 and 1 are normal scores. */
export function judgeUntested(constant: boolean, score: number): Judgement {
  const detail = constant
    ? `Four different texts all score ${show(score)}. This is normal for a verifier that returns 0 or 1, but not for a reward model.`
    : 'The engine has only one scoring method.'
  return { verdict: 'not_applicable', detail }
}

export function judgeConstant(engine: Engine, score: number): Judgement {
  const why =
    Math.abs(score) === 1
      ? engine.name === 'llamacpp'
        ? 'llama.cpp applies a softmax to this head (Qwen3), and a softmax over one label is 1 for every text. Serve the model with vLLM, SGLang or TEI.'
        : 'An activation over one label (a softmax of one number, or a normalized embedding) makes all rewards equal.'
      : 'The score does not depend on the text: the head may not be loaded, or another model is served.'
  return {
    verdict: 'constant',
    detail: `Four different texts all score exactly ${show(score)}. ${why}`,
  }
}

/** `bounded`: all raw scores lie within 0 to 1. */
export function judge(
  engine: Engine,
  { label }: EngineTarget,
  raw: Pair,
  bounded: boolean,
  activated: Pair | null,
): Judgement {
  const scored = `Scored ${show(raw.good)} and ${show(raw.bad)}`
  if (engine.name === 'llamacpp' && bounded) return judgeSoftmax(scored, label ?? null)
  if (activated === null) return judgeAlone(raw, bounded, scored)
  const both = `${scored} raw, ${show(activated.good)} and ${show(activated.bad)} activated`
  const equal = alike(raw, activated)
  const honest = alike(sigmoids(raw), activated)
  // The activation of one label is a sigmoid; of several it depends on the others, which are not known here.
  const unrelated = label == null && !equal && !honest && withinUnit(activated)
  if (!bounded) {
    return unrelated
      ? judgeUnrelated(engine, both)
      : { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  }
  // 0.659 is its own sigmoid.
  if (equal && honest) return { verdict: 'unverified', detail: `${both}: indistinguishable.` }
  if (equal) {
    return {
      verdict: 'squashed',
      detail: `${both}: equal, within 0 to 1. Either the server always applies an activation, or the model outputs such scores.`,
    }
  }
  if (honest)
    return { verdict: 'raw', detail: `${both}: the activated scores are sigmoids of the raw ones.` }
  if (alike(sigmoids(activated), raw) || !withinUnit(activated)) {
    return {
      verdict: 'inverted',
      detail: `${both}: raw and activated scores are swapped.`,
    }
  }
  return unrelated
    ? judgeUnrelated(engine, both)
    : { verdict: 'raw', detail: `${both}: different, as expected.` }
}

/** Seen with vLLM 0.14.0 and a BERT cross-encoder: raw scores lack the tanh of the model's pooler, activated ones do not. */
function judgeUnrelated(engine: Engine, both: string): Judgement {
  const cause =
    engine.name === 'vllm'
      ? ' vLLM 0.14 computes raw scores of BERT models without the activation of their pooler: serve the model with another release.'
      : ''
  return {
    verdict: 'unverified',
    detail: `${both}: the activated scores are not the sigmoids of the raw ones, so the raw ones are not the model's logits.${cause}`,
  }
}

/** llama.cpp gives bounded scores only where it applied a softmax to several labels; their logits cannot be had. */
function judgeSoftmax(scored: string, label: string | null): Judgement {
  const softmax = `${scored}, all within 0 to 1: llama.cpp applies a softmax to this head (Qwen3), and returns only label 0.`
  if (label === null) {
    return {
      verdict: 'label_unknown',
      detail: `${softmax} Register it with "label": 0 for that label's probability, or 1 for the second of two labels; it then needs selfTestOverride, because raw logits are unavailable.`,
    }
  }
  return {
    verdict: 'squashed',
    detail: `${softmax} This is the probability of label ${label}; raw logits, which other engines return, are unavailable.`,
  }
}

/** Of a server that can be asked in one way only. */
function judgeAlone(raw: Pair, bounded: boolean, scored: string): Judgement {
  // A normalised embedding of one number keeps its sign.
  if (Math.abs(raw.good) === 1 && Math.abs(raw.bad) === 1) return ALWAYS_ONE
  if (!bounded) return { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  return {
    verdict: 'unverified',
    detail: `${scored}, all within 0 to 1, and the server returned no activated scores to compare.`,
  }
}

const ALWAYS_ONE: Judgement = {
  verdict: 'squashed',
  detail: 'Every text scores 1 or −1: a normalized embedding keeps only the sign of a score.',
}

function withinUnit({ good, bad }: Pair): boolean {
  return isProbability(good) && isProbability(bad)
}

/** A score that an activation could have made. */
export function isProbability(score: number): boolean {
  return score >= 0 && score <= 1
}

function alike(a: Pair, b: Pair): boolean {
  return Math.abs(a.good - b.good) < SAME && Math.abs(a.bad - b.bad) < SAME
}

function sigmoids({ good, bad }: Pair): Pair {
  return { good: sigmoid(good), bad: sigmoid(bad) }
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x))
}

/** A score as it is shown in a sentence. */
export function show(score: number): string {
  return String(Number(score.toPrecision(5)))
}

/** Nothing to test. */
export function untested(detail: string): SelfTestResult {
  const none = { raw: null, activated: null, calibration: null, calibrations: [] }
  return { verdict: 'not_applicable', ...none, detail }
}

/** No score to test. */
export function failed(detail: string, raw: number | null): SelfTestResult {
  return { verdict: 'failed', raw, activated: null, calibration: raw, calibrations: [], detail }
}
