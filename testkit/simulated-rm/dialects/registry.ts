import type { DialectName } from '../options.ts'
import { chat } from './chat.ts'
import type { Dialect } from './dialect.ts'
import { llamacpp } from './llamacpp.ts'
import { sglang } from './sglang.ts'
import { tei } from './tei.ts'
import { vllm } from './vllm.ts'

const dialects: Record<DialectName, Dialect> = { vllm, sglang, tei, llamacpp, chat }

export function dialectOf(name: DialectName): Dialect {
  return dialects[name]
}
