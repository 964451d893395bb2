/**
 * Classification of answers other than 2xx, and the root of a server's routes, for callers that send requests themselves
 * through a slot. Modules above the router import these from here, because they may not import the engines.
 */
export { classifyStatus } from '../engines/answer.ts'
export type { EngineFailure, FailureClass, ResponseHeaders } from '../engines/engine.ts'
export { rootOf } from '../engines/server-url.ts'
