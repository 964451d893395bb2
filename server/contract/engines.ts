import { namesOf } from './names-of.ts'

interface EngineDefinition {
  /** The official spelling, for pages. */
  label: string
  /** The name of the engine's servers, as in docs/servers.md and error messages. */
  servers: string
}

/**
 * Engines, in the order of pages and docs/servers.md. server/engines has their protocols and other properties.
 */
export const ENGINES = {
  vllm: { label: 'vLLM', servers: 'vLLM' },
  sglang: { label: 'SGLang', servers: 'SGLang' },
  tei: { label: 'TEI', servers: 'text-embeddings-inference' },
  llamacpp: { label: 'llama.cpp', servers: 'llama.cpp' },
  openai: { label: 'OpenAI-compatible', servers: 'OpenAI-compatible' },
  openrlhf: { label: 'OpenRLHF', servers: 'OpenRLHF' },
  http: { label: 'HTTP scorer', servers: 'custom HTTP scorers' },
} as const satisfies Record<string, EngineDefinition>
export type EngineName = keyof typeof ENGINES
export const ENGINE_NAMES = namesOf(ENGINES)
