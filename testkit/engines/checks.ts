import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import type { ApiInputs } from '../processes/trpc-call.ts'
import type { Service } from '../service/service.ts'
import { nameOf, type Release } from './cache.ts'
import { EngineProcess, type Serving } from './engine-process.ts'
import { endReferences } from './reference.ts'

export interface Outcome {
  release: string
  check: string
  ok: boolean
  /** Figures of a passed check, or differences of a failed check. */
  detail: string
}

export interface CheckContext {
  release: Release
  engine: EngineProcess
  service: Service
  server: string
  /** Name of the model in the cache. */
  model: string
  /** Name of the model in the service; llama.cpp names a model after its file. */
  pool: string
  /** Registers the server as the stage specifies, for example after a check has removed it. */
  register(): Promise<ServerDto>
  get(): Promise<ServerDetailDto>
}

/** One check. `run` returns its observations, or throws an Error that says what is wrong. */
export interface Check {
  name: string
  run(context: CheckContext): Promise<string>
}

export interface Stage extends Omit<Serving, 'release'> {
  /** Fields of `servers.register` in addition to name and URL. */
  register?: Partial<ApiInputs['servers']['register']>
  checks: Check[]
}

/** Maximum time of a check; a restart of vLLM on a busy CPU takes minutes. */
const CHECK_MS = 60 * 60_000
const MAX_LOG_LINES = 20

/**
 * Starts the stage's engine, registers it and runs its checks in order. A failed start or check is recorded as an
 * outcome.
 * @throws when the engine does not start again after a check
 */
export async function runStage(
  release: Release,
  { checks, register, ...serving }: Stage,
  service: Service,
  report: (outcome: Outcome) => void,
): Promise<void> {
  const server = `${release.engine}-${serving.model}`
  const outcome = (check: string, ok: boolean, detail: string) =>
    report({ release: nameOf(release), check, ok, detail })
  let engine: EngineProcess
  try {
    engine = await EngineProcess.start({ ...serving, release })
  } catch (error) {
    for (const { name } of checks)
      outcome(name, false, `the engine did not start: ${messageOf(error)}`)
    return
  }
  const fields = { name: server, url: engine.url, ...register }
  const context: CheckContext = {
    ...{ release, engine, service, server, model: serving.model, pool: serving.model },
    get: () => service.api.servers.get.query({ name: server }),
    register: () => service.api.servers.register.mutate(fields),
  }
  const refusal = await context.register().then(
    ({ model }) => {
      context.pool = model
      return null
    },
    (error) => messageOf(error),
  )
  for (const { name, run } of checks) {
    const startedAt = performance.now()
    const logged = service.log.lines.length
    try {
      const detail = await within(CHECK_MS, run(context))
      outcome(name, true, detail)
    } catch (error) {
      const refused = refusal === null ? '' : `registration was refused: ${refusal}; `
      const seconds = Math.round((performance.now() - startedAt) / 1_000)
      outcome(name, false, `${refused}${messageOf(error)} (after ${seconds} s)`)
      const warnings = service.log.lines.slice(logged).filter(({ level }) => level !== 30)
      for (const { raw } of warnings.slice(-MAX_LOG_LINES)) console.error(`  service: ${raw}`)
    }
    // A check may leave the engine dead, which must not affect the next check.
    if (!(await engine.isHealthy())) await restart(engine)
  }
  await service.api.servers.remove.mutate({ name: server }).catch(() => {})
  endReferences()
  await engine.stop()
}

export async function restart(engine: EngineProcess): Promise<void> {
  await engine.stop()
  await engine.start()
}

export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length <= 400 ? line : `${line.slice(0, 399)}…`
}

export function must(holds: boolean, message: string): void {
  if (!holds) throw new Error(message)
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${ms / 60_000} minutes`)), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
