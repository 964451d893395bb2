/**
 * Classification of answers other than 2xx, and the root of a server's routes, for callers that send their own requests
 * through a slot. Modules that use the router may not import the engines, so they import these from here.
 */
export { classifyStatus } from '../engines/answer.ts'
export type { EngineFailure, FailureClass, ResponseHeaders } from '../engines/engine.ts'
export { rootOf } from '../engines/server-url.ts'
