import type { Engine, EngineName } from './engine.ts'
import { http } from './http.ts'
import { llamacpp } from './llamacpp.ts'
import { openai } from './openai.ts'
import { openrlhf } from './openrlhf.ts'
import { sglang } from './sglang.ts'
import { tei } from './tei.ts'
import { vllm } from './vllm.ts'

const engines: Readonly<Record<EngineName, Engine>> = {
  vllm,
  sglang,
  tei,
  llamacpp,
  openai,
  openrlhf,
  http,
}

export const ENGINE_NAMES = Object.keys(engines) as EngineName[]

export function engineOf(name: EngineName): Engine {
  return engines[name]
}
