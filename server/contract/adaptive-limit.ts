/**
 * The maximum of the adaptive limit, over all processes. It applies to servers without `maxInFlight`. In simulations,
 * servers were saturated by 2 to 32 requests; the maximum is three times 32.
 */
export const ADAPTIVE_MAX_IN_FLIGHT = 96

/**
 * The initial adaptive limit, over all processes. Judges start higher: their requests take longer, so more of them are
 * in flight at the same rate.
 */
export const ADAPTIVE_INITIAL_IN_FLIGHT = { discriminative: 8, generative: 16 } as const
