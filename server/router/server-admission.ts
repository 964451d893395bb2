/**
 * What the registry of servers needs before a server may be routed to: is the address allowed, and what answers there.
 * The way for those above the router, who do not know the engines.
 */
export type { ProbeFailure } from '../engines/engine.ts'
export { type ProbedServer, type ProbeRequest, probeServer } from '../engines/probe.ts'
export { checkServerUrl, type ServerUrl } from '../engines/server-url.ts'
