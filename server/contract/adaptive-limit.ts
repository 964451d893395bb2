/**
 * The highest limit of a server without `maxInFlight`, over all processes. Within it, the adaptive limit finds the best
 * value by measuring. In the model, engines were saturated by 2 to 32 requests.
 */
export const ADAPTIVE_MAX_IN_FLIGHT = 96

/** The initial adaptive limit, over all processes. Judges take longer, so more of their requests are in flight. */
export const ADAPTIVE_INITIAL_IN_FLIGHT = { discriminative: 8, generative: 16 } as const
