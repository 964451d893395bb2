import { type Calibration, calibrationScores } from '../engines/calibration.ts'
import type {
  Engine,
  EngineLoad,
  EngineName,
  ScoreRoute,
  SleepAbilities,
  SleepLevel,
} from '../engines/engine.ts'
import { type OpenFetch, openFetch, ProbeStop } from '../engines/engine-fetch.ts'
import { engineOf } from '../engines/registry.ts'
import { chatSelfTest, rawScoreSelfTest, type SelfTestResult } from '../engines/self-test.ts'
import { storedChatTemplate } from './chat-template.ts'

export { type Calibration, calibrationDiffers, differingText } from '../engines/calibration.ts'
/**
 * Operations on servers other than routing: probing, testing scores, sleep and wake. Modules that use the router must
 * not import the engines, so they import these operations from here.
 */
export { setEgressPolicy } from '../engines/egress.ts'
export type { EngineName, ProbeFailure, SleepLevel } from '../engines/engine.ts'
export { type ProbedServer, type ProbeRequest, probeServer } from '../engines/probe.ts'
export type { SelfTestResult } from '../engines/self-test.ts'
export { checkServerUrl, type ServerUrl } from '../engines/server-url.ts'

export interface ServerAddress {
  url: string
  engine: EngineName
  apiKey: string | null
}

export type EngineAbilities = Pick<
  Engine,
  'scores' | 'chats' | 'selfTested' | 'routes' | 'labels' | 'paths'
> & { readonly lifecycle: SleepAbilities | null }

export function abilitiesOf(engine: EngineName): EngineAbilities {
  return engineOf(engine)
}

export interface ScoringServer extends ServerAddress {
  kind: 'discriminative' | 'generative'
  model: string
  version: string | null
  route: ScoreRoute | null
  label: string | null
  plainText: boolean
  maxModelLen: number | null
  chatTemplate: string | null
}

/** Tests that the scores of an awake server are raw, or that an awake judge replies. `timeoutMs` limits each call. */
export function testScores(server: ScoringServer, timeoutMs: number): Promise<SelfTestResult> {
  return through(server, timeoutMs, ({ fetch, basePath }) =>
    server.kind === 'generative'
      ? chatSelfTest(server.engine, fetch, { ...targetOf(server), basePath })
      : rawScoreSelfTest(engineOf(server.engine), fetch, { ...targetOf(server), basePath }),
  )
}

/**
 * Scores the calibration texts, one call each. Returns null if the engine cannot score fixed texts.
 * @throws Error with the server's answer, or if `stop` was aborted
 */
export function calibrate(
  server: ScoringServer,
  timeoutMs: number,
  stop: AbortSignal,
): Promise<Calibration[] | null> {
  return through(server, timeoutMs, ({ fetch, basePath, close }) => {
    if (stop.aborted) close()
    stop.addEventListener('abort', close, { once: true })
    return calibrationScores(engineOf(server.engine), fetch, { ...targetOf(server), basePath })
  })
}

function targetOf(server: ScoringServer) {
  const { model, version, route, label, plainText, maxModelLen } = server
  const chatTemplate = storedChatTemplate(server.chatTemplate)
  return { model, version, route, label, plainText, maxModelLen, chatTemplate }
}

/** Reads a server's load. Returns null if the server reports none or does not answer. */
export async function readLoad(
  server: ServerAddress,
  timeoutMs: number,
): Promise<EngineLoad | null> {
  try {
    return await through(server, timeoutMs, ({ fetch, basePath }) =>
      engineOf(server.engine).readLoad(fetch, basePath),
    )
  } catch {
    return null
  }
}

/** Whether the server sleeps, or null if it does not report this. @throws Error if the server does not answer */
export function isAsleep(server: ServerAddress, timeoutMs: number): Promise<boolean | null> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    return lifecycle === null ? false : lifecycle.isSleeping(fetch, basePath)
  })
}

/** Puts a server to sleep. No call may be in flight. @throws Error with the server's answer if it refuses */
export function sendSleep(
  server: ServerAddress,
  level: SleepLevel,
  timeoutMs: number,
): Promise<void> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    if (lifecycle === null) throw new Error(`${server.engine} does not support sleep`)
    await lifecycle.sleep(fetch, basePath, level)
  })
}

/** @throws Error with the server's answer if it refuses */
export function sendWake(server: ServerAddress, timeoutMs: number): Promise<void> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    if (lifecycle === null) throw new Error(`${server.engine} does not support sleep`)
    await lifecycle.wake(fetch, basePath)
  })
}

/** Whether an error of the operations above means that the server did not answer. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof ProbeStop && error.failure.reason === 'server_unreachable'
}

async function through<T>(
  server: ServerAddress,
  timeoutMs: number,
  talk: (open: OpenFetch) => Promise<T>,
): Promise<T> {
  const open = openFetch(server.url, server.apiKey, { timeoutMs })
  try {
    return await talk(open)
  } finally {
    open.close()
  }
}
