/**
 * Isolation levels of custom reward functions. `process`: no secrets, no privileges, limited resources. `sandbox`: in
 * addition, no access to the machine's files, processes and network.
 */
export const ISOLATION_LEVELS = ['process', 'sandbox'] as const
export type Isolation = (typeof ISOLATION_LEVELS)[number]

/**
 * The network that a function at level `sandbox` can reach. `none`: nothing. `router`: the router address. `open`: the
 * machine's network.
 */
export const SANDBOX_NETWORKS = ['none', 'router', 'open'] as const
export type SandboxNetwork = (typeof SANDBOX_NETWORKS)[number]

/**
 * Header of requests from a function in a sandbox. The service accepts such requests only on paths of the router
 * address.
 */
export const FUNCTION_CALLER_HEADER = 'x-rewardops-function'
