import type { PolicyServer } from './policy.ts'

/** Weights are clamped to these bounds so that quotients stay finite. */
const MIN_WEIGHT = 1e-6
const MAX_WEIGHT = 1e6
const MAX_COUNT = 1e12
/**
 * A reported queue longer than this is ignored, because the server's counter must be wrong: the limit is ten times the
 * default maximum of the router's queue for a model. Otherwise a server that reports 1e9 would receive no samples.
 */
const MAX_QUEUE = 100_000

/** The server's weight; invalid weights count as 1. */
export function weightOf(server: { readonly weight: number }): number {
  const { weight } = server
  if (!(weight > 0)) return 1
  return weight < MIN_WEIGHT ? MIN_WEIGHT : weight > MAX_WEIGHT ? MAX_WEIGHT : weight
}

/** A count of samples or tokens; invalid counts become 0. */
export function countOf(value: number): number {
  if (!(value > 0)) return 0
  return value > MAX_COUNT ? MAX_COUNT : value
}

/** Samples of other clients at the server; 0 if the reported number is implausible. */
export function externalSamples(server: PolicyServer): number {
  const { externalQueue } = server
  return externalQueue > 0 && externalQueue <= MAX_QUEUE ? externalQueue : 0
}

/** A measured quantity; 0 for null, NaN, values not above 0 and values above the maximum. */
export function measured(value: number | null): number {
  return value !== null && value > 0 && value <= MAX_COUNT ? value : 0
}

/**
 * Samples at the server from any client, plus one, divided by the server's weight. The policy `least_connections`
 * compares this load.
 */
export function sampleLoad(server: PolicyServer): number {
  return (countOf(server.inFlight) + externalSamples(server) + 1) / weightOf(server)
}
