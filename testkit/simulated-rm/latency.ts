import { z } from 'zod'
import { Draws } from './draw.ts'
import type { ServerSettings } from './options.ts'

/** Distribution of the time that the server takes for a text, in ms. The length of the text has no effect. */
export type Latency =
  | { kind: 'constant'; ms: number }
  | { kind: 'uniform'; fromMs: number; toMs: number }
  | { kind: 'lognormal'; medianMs: number; sigma: number }
  | { kind: 'exponential'; meanMs: number }

const NUMBER = String.raw`\d+(?:\.\d+)?`
const FORMS = new RegExp(
  `^(?:(?:constant:)?(${NUMBER})|(uniform|lognormal):(${NUMBER}),(${NUMBER})|exponential:(${NUMBER}))$`,
)

/** Parses `20`, `constant:20`, `uniform:10,50`, `lognormal:200,0.5` (median, sigma) or `exponential:30` (mean); ms. */
export const LatencyText = z
  .union([z.string(), z.number()])
  .transform((given, context): Latency => {
    const match = FORMS.exec(String(given))
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

export type LatencySettings = Pick<ServerSettings, 'latency' | 'slowShare' | 'slowMs'>

export function drawLatencyMs(settings: LatencySettings, draws: Draws): number {
  const { latency, slowShare, slowMs } = settings
  if (slowShare > 0 && draws.next() < slowShare) return slowMs
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

/** The latency in ms that a server with `drawBy: 'text'` gives to the text with this id. */
export function latencyOfText(
  settings: LatencySettings & Pick<ServerSettings, 'seed'>,
  id: string,
): number {
  return drawLatencyMs(settings, new Draws(settings.seed, Number.parseInt(id.slice(0, 8), 16)))
}
