import type { PolicyServer } from './policy.ts'

/** Weights beyond these are taken for these: a quotient of them stays finite. */
const MIN_WEIGHT = 1e-6
const MAX_WEIGHT = 1e6
/** Counts beyond are taken for this. */
const MAX_COUNT = 1e12
/**
 * A queue longer than this is a broken counter, not a queue, and read as unknown: ten times what a pool of ours may
 * hold. Taken at its word, a server that reports 1e9 would get nothing for as long as it does.
 */
const MAX_QUEUE = 100_000

/** The server's weight, 1 where it is none. */
export function weightOf(server: { readonly weight: number }): number {
  const { weight } = server
  if (!(weight > 0)) return 1
  return weight < MIN_WEIGHT ? MIN_WEIGHT : weight > MAX_WEIGHT ? MAX_WEIGHT : weight
}

/** A count of samples or tokens, 0 where it is none. */
export function countOf(value: number): number {
  if (!(value > 0)) return 0
  return value > MAX_COUNT ? MAX_COUNT : value
}

/** Samples of others at the server, 0 where what it says cannot be. */
export function externalSamples(server: PolicyServer): number {
  const { externalQueue } = server
  return externalQueue > 0 && externalQueue <= MAX_QUEUE ? externalQueue : 0
}

/** A measured quantity, 0 where there is none: null, NaN, not above 0, infinite. */
export function measured(value: number | null): number {
  return value !== null && value > 0 && value <= MAX_COUNT ? value : 0
}

/** Samples at the server with one more, ours and others', by its weight: what least in flight compares. */
export function sampleLoad(server: PolicyServer): number {
  return (countOf(server.inFlight) + externalSamples(server) + 1) / weightOf(server)
}
