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
 * In the order of auto-detection. No route identifies the last three, so auto-detection sends them requests: custom
 * scorers get an empty list of samples, and OpenRLHF gets a short text.
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
