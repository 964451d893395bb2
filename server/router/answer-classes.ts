/**
 * What an answer other than 2xx means, and where a server's routes begin, for those who send their calls themselves through a
 * slot: the way for those above the router, who do not know the engines.
 */
export { classifyStatus } from '../engines/answer.ts'
export type { EngineFailure, FailureClass, ResponseHeaders } from '../engines/engine.ts'
export { rootOf } from '../engines/server-url.ts'
