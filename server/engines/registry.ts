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
 * All engines, in the order in which auto-detection tries them. The last three have no route that identifies them:
 * they are probed, custom scorers with an empty list of samples, OpenRLHF with a short text.
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
