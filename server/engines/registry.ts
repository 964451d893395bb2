import type { Engine, EngineName } from './engine.ts'
import { openrlhf } from './openrlhf.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'

const engines: Readonly<Record<EngineName, Engine>> = { vllm, sglang, openrlhf }

/** Every engine there is, by name. */
export const ENGINE_NAMES = Object.keys(engines) as EngineName[]

/** The engine of that name. */
export function engineOf(name: EngineName): Engine {
  return engines[name]
}
