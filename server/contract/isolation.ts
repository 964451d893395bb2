/**
 * How processes of custom reward functions are kept in. `process`: without secrets and privileges, with limits.
 * `sandbox`: also without the machine's files, processes and network.
 */
export const ISOLATION_LEVELS = ['process', 'sandbox'] as const
export type Isolation = (typeof ISOLATION_LEVELS)[number]

/**
 * What a function can reach at level `sandbox`. `none`: nothing. `router`: the router address. `open`: everything that
 * the machine can.
 */
export const SANDBOX_NETWORKS = ['none', 'router', 'open'] as const
export type SandboxNetwork = (typeof SANDBOX_NETWORKS)[number]

/** Marks a request that a function in a sandbox sent: the server answers only paths of the router. */
export const FUNCTION_CALLER_HEADER = 'x-rewardops-function'
