import { ENGINE_NAMES, type EngineName } from '../../contract/engines.ts'
import { PROXIED_PATHS, type ProxiedPath } from '../../contract/proxied-paths.ts'
import { abilitiesOf } from '../../router/server-admission.ts'

export const MODELS_PATH = '/v1/models'

/** Paths of generative models. Answers may be streamed. If the server was put to sleep, `finish_reason` is `abort`. */
const GENERATING: ReadonlySet<string> = new Set<ProxiedPath>([
  '/generate',
  '/v1/chat/completions',
  '/v1/completions',
])

export function generates(path: ProxiedPath): boolean {
  return GENERATING.has(path)
}

const PATHS: ReadonlySet<string> = new Set(PROXIED_PATHS)

export function isProxied(path: string): path is ProxiedPath {
  return PATHS.has(path)
}

export function isRouterPath(path: string): boolean {
  return PATHS.has(path) || path === MODELS_PATH
}

export function hasPath(engine: EngineName, path: ProxiedPath): boolean {
  return abilitiesOf(engine).paths.has(path)
}

export function enginesWith(path: ProxiedPath): EngineName[] {
  return ENGINE_NAMES.filter((engine) => hasPath(engine, path))
}
