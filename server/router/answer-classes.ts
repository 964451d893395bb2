/**
 * Classification of answers other than 2xx, and the root of a server's routes, for callers that get a slot from the
 * router and send the request themselves. Modules that use the router must not import the engines, so they import these
 * functions from here.
 */
export { classifyStatus } from '../engines/answer.ts'
export type { EngineFailure, FailureClass, ResponseHeaders } from '../engines/engine.ts'
export { rootOf } from '../engines/server-url.ts'
