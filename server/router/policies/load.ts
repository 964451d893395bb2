import type { PolicyServer } from './policy.ts'

/** Weights are clamped to these bounds so that quotients stay finite. */
const MIN_WEIGHT = 1e-6
const MAX_WEIGHT = 1e6
/** Counts are clamped to this bound. */
const MAX_COUNT = 1e12
/**
 * A longer queue is a broken counter and counts as unknown: this is ten times a pool's own maximum. A server that reports
 * 1e9 would otherwise get no samples while it does.
 */
const MAX_QUEUE = 100_000

/** The server's weight; invalid weights count as 1. */
export function weightOf(server: { readonly weight: number }): number {
  const { weight } = server
  if (!(weight > 0)) return 1
  return weight < MIN_WEIGHT ? MIN_WEIGHT : weight > MAX_WEIGHT ? MAX_WEIGHT : weight
}

/** A count of samples or tokens; invalid counts are 0. */
export function countOf(value: number): number {
  if (!(value > 0)) return 0
  return value > MAX_COUNT ? MAX_COUNT : value
}

/** Samples of other clients at the server; 0 if the reported number is implausible. */
export function externalSamples(server: PolicyServer): number {
  const { externalQueue } = server
  return externalQueue > 0 && externalQueue <= MAX_QUEUE ? externalQueue : 0
}

/** A measured quantity; 0 for null, NaN, infinity and values not above 0. */
export function measured(value: number | null): number {
  return value !== null && value > 0 && value <= MAX_COUNT ? value : 0
}

/** Samples at the server plus one, from any client, divided by its weight: the load that least connections compares. */
export function sampleLoad(server: PolicyServer): number {
  return (countOf(server.inFlight) + externalSamples(server) + 1) / weightOf(server)
}
