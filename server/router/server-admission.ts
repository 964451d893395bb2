import { type Calibration, calibrationScores } from '../engines/calibration.ts'
import type { EngineLoad, EngineName, ScoreRoute, SleepLevel } from '../engines/engine.ts'
import { type OpenFetch, openFetch, ProbeStop } from '../engines/engine-fetch.ts'
import { engineOf } from '../engines/registry.ts'
import { chatSelfTest, rawScoreSelfTest, type SelfTestResult } from '../engines/self-test.ts'
import { storedChatTemplate } from './chat-template.ts'

export { type Calibration, calibrationDiffers, differingText } from '../engines/calibration.ts'
/**
 * What the registry of servers needs to do with a server beside routing to it: ask what it is, look at its scores, put
 * it to sleep and wake it. The way for those above the router, who do not know the engines.
 */
export type { EngineName, ProbeFailure, SleepLevel } from '../engines/engine.ts'
export { type ProbedServer, type ProbeRequest, probeServer } from '../engines/probe.ts'
export type { SelfTestResult } from '../engines/self-test.ts'
export { checkServerUrl, type ServerUrl } from '../engines/server-url.ts'

/** A server as it is spoken to. */
export interface ServerAddress {
  url: string
  engine: EngineName
  apiKey: string | null
}

/** What it can be asked for. */
export interface EngineAbilities {
  /** It gives scores. */
  scores: boolean
  /** It speaks chat completions. */
  chats: boolean
  /** Its scores may come squashed, so they are tested. */
  selfTested: boolean
  /** It knows sleep and wake. */
  sleeps: boolean
  /** The routes that a registration may name. */
  routes: readonly ScoreRoute[]
  /** How a registration may name a label. */
  labels: 'index' | 'name' | 'two' | null
}

/** What an engine can do. */
export function abilitiesOf(engine: EngineName): EngineAbilities {
  const { scores, chats, selfTested, lifecycle, routes, labels } = engineOf(engine)
  return { scores, chats, selfTested, sleeps: lifecycle !== null, routes, labels }
}

/** A server whose scores are looked at. */
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

/** The self-test of a server that is awake: its raw scores, or a judge's reply. Its calls take at most `timeoutMs` each. */
export function testScores(server: ScoringServer, timeoutMs: number): Promise<SelfTestResult> {
  return through(server, timeoutMs, ({ fetch, basePath }) =>
    server.kind === 'generative'
      ? chatSelfTest(server.engine, fetch, { ...targetOf(server), basePath })
      : rawScoreSelfTest(engineOf(server.engine), fetch, { ...targetOf(server), basePath }),
  )
}

/** The calibration texts alone, a call each; null where none can be scored. @throws Error with what it answered */
export function calibrate(server: ScoringServer, timeoutMs: number): Promise<Calibration[] | null> {
  return through(server, timeoutMs, ({ fetch, basePath }) =>
    calibrationScores(engineOf(server.engine), fetch, { ...targetOf(server), basePath }),
  )
}

function targetOf(server: ScoringServer) {
  const { model, version, route, label, plainText, maxModelLen } = server
  const chatTemplate = storedChatTemplate(server.chatTemplate)
  return { model, version, route, label, plainText, maxModelLen, chatTemplate }
}

/** What the server says it has to do; null where it does not tell. Never rejects. */
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

/** Whether it sleeps; null: it does not tell. @throws Error when it does not answer */
export function isAsleep(server: ServerAddress, timeoutMs: number): Promise<boolean | null> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    return lifecycle === null ? false : lifecycle.isSleeping(fetch, basePath)
  })
}

/** Tells a server to sleep; only when nothing is in flight. @throws Error with what it answered when it refused */
export function tellToSleep(
  server: ServerAddress,
  level: SleepLevel,
  timeoutMs: number,
): Promise<void> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    if (lifecycle === null) throw new Error(`${server.engine} knows no sleep`)
    await lifecycle.sleep(fetch, basePath, level)
  })
}

/** Tells a server to wake. @throws Error with what it answered when it refused */
export function tellToWake(server: ServerAddress, timeoutMs: number): Promise<void> {
  return through(server, timeoutMs, async ({ fetch, basePath }) => {
    const { lifecycle } = engineOf(server.engine)
    if (lifecycle === null) throw new Error(`${server.engine} knows no sleep`)
    await lifecycle.wake(fetch, basePath)
  })
}

/** Whether an error says that no answer came at all, rather than what the answer was. */
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
