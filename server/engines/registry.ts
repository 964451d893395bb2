import type { EngineName } from '../contract/engines.ts'
import type { Engine } from './engine.ts'
import { http } from './http.ts'
import { llamacpp } from './llamacpp.ts'
import { openai } from './openai.ts'
import { openrlhf } from './openrlhf.ts'
import { sglang } from './sglang.ts'
import { tei } from './tei.ts'
import { vllm } from './vllm.ts'

/**
 * The engines in the order of auto-detection. No GET route identifies the last three, so auto-detection sends POST
 * requests: an empty object to /v1/chat/completions, an empty list of samples to custom scorers, and a short text to
 * OpenRLHF.
 */
const engines: Readonly<Record<EngineName, Engine>> = {
  tei,
  sglang,
  vllm,
  llamacpp,
  openai,
  http,
  openrlhf,
}

export const DETECTION_ORDER = Object.values(engines)

export function engineOf(name: EngineName): Engine {
  return engines[name]
}
