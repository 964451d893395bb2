import { z } from 'zod'
import type { Draws } from './draw.ts'

/** How long a row takes, in ms, whatever its length. */
export type Latency =
  | { kind: 'constant'; ms: number }
  | { kind: 'uniform'; fromMs: number; toMs: number }
  | { kind: 'lognormal'; medianMs: number; sigma: number }
  | { kind: 'exponential'; meanMs: number }

const NUMBER = String.raw`\d+(?:\.\d+)?`
const FORMS = new RegExp(
  `^(?:(?:constant:)?(${NUMBER})|(uniform|lognormal):(${NUMBER}),(${NUMBER})|exponential:(${NUMBER}))$`,
)

/** Written as `20`, `constant:20`, `uniform:10,50`, `lognormal:200,0.5` (median, sigma) or `exponential:30`. */
export const LatencyText = z.string().transform((text, context): Latency => {
  const match = FORMS.exec(text)
  if (match === null) {
    context.addIssue({
      code: 'custom',
      message: 'use constant:20, uniform:10,50, lognormal:median,sigma or exponential:mean (ms)',
    })
    return z.NEVER
  }
  const [, constant, two, first, second, mean] = match
  if (constant !== undefined) return { kind: 'constant', ms: Number(constant) }
  if (mean !== undefined) return { kind: 'exponential', meanMs: Number(mean) }
  if (two === 'uniform') return { kind: 'uniform', fromMs: Number(first), toMs: Number(second) }
  return { kind: 'lognormal', medianMs: Number(first), sigma: Number(second) }
})

/** One latency, in ms. */
export function drawLatencyMs(latency: Latency, draws: Draws): number {
  switch (latency.kind) {
    case 'constant':
      return latency.ms
    case 'uniform':
      return latency.fromMs + (latency.toMs - latency.fromMs) * draws.next()
    case 'lognormal':
      return latency.medianMs * Math.exp(latency.sigma * draws.normal())
    case 'exponential':
      return -latency.meanMs * Math.log(1 - draws.next())
  }
}
