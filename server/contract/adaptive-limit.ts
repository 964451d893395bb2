/**
 * The maximum of the adaptive limit, over all processes. It applies to servers without `maxInFlight`. In simulations,
 * 2 to 32 requests saturated a server, so this is three times the highest.
 */
export const ADAPTIVE_MAX_IN_FLIGHT = 96

/** The initial adaptive limit, over all processes. Judges start higher, because they take longer per request. */
export const ADAPTIVE_INITIAL_IN_FLIGHT = { discriminative: 8, generative: 16 } as const
