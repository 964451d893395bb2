import { z } from 'zod'
import { SCORE_KINDS } from './score.ts'

/** What can be made to go wrong with a share of the requests. */
export type Fault =
  | { kind: 'none' | 'nan' | 'null' | 'html' | 'redirect' | 'hang' | 'drop' }
  | { kind: 'status'; status: number }

const Delay = z
  .string()
  .regex(/^(\d+(\.\d+)?|uniform:\d+(\.\d+)?,\d+(\.\d+)?)$/, 'use 50 or uniform:100,4000 (ms)')
  .transform((text) => {
    const [from, to] = text.replace('uniform:', '').split(',').map(Number)
    return { fromMs: from as number, toMs: to ?? (from as number) }
  })
  .refine((delay) => delay.fromMs <= delay.toMs, 'the first number must not exceed the second')

const FaultText = z
  .string()
  .regex(
    /^(none|nan|null|html|redirect|hang|drop|status:[1-5]\d\d)$/,
    'use none, nan, null, html, redirect, hang, drop or status:503',
  )
  .transform((text): Fault => {
    if (text.startsWith('status:')) return { kind: 'status', status: Number(text.slice(7)) }
    return { kind: text as Exclude<Fault['kind'], 'status'> }
  })

/** Whether a draw is made from the request's text (the same again when it is sent again) or anew each time. */
const DrawnBy = z.enum(['text', 'arrival'])

/** What can be set, at the start by an option and while running by `POST /__control`. */
export const BehaviourChange = z.strictObject({
  score: z.enum(SCORE_KINDS).optional(),
  /** Every request waits this long. The short form of `delay`. */
  delayMs: z.coerce.number().min(0).max(3_600_000).optional(),
  /** `50`, or `uniform:100,4000` (ms). */
  delay: Delay.optional(),
  /** This share of the texts waits `slowMs` instead. */
  slowShare: z.coerce.number().min(0).max(1).optional(),
  slowMs: z.coerce.number().min(0).max(3_600_000).optional(),
  delayBy: DrawnBy.optional(),
  fault: FaultText.optional(),
  faultShare: z.coerce.number().min(0).max(1).optional(),
  faultBy: DrawnBy.optional(),
  /** Texts worked on at once, the others wait in line; 0: no limit. */
  concurrency: z.coerce.number().int().min(0).max(1_000_000).optional(),
  seed: z.coerce.number().int().min(0).max(0xffff_ffff).optional(),
})
export type BehaviourChange = z.output<typeof BehaviourChange>

/** How the server behaves now. */
export interface Behaviour {
  score: (typeof SCORE_KINDS)[number]
  delay: { fromMs: number; toMs: number }
  slowShare: number
  slowMs: number
  delayBy: 'text' | 'arrival'
  fault: Fault
  faultShare: number
  faultBy: 'text' | 'arrival'
  concurrency: number
  seed: number
}

/** No delay, no faults, no limit. Slow texts are slow on every try; faults strike a try, not a text. */
export const PLAIN_BEHAVIOUR: Behaviour = {
  score: 'features',
  delay: { fromMs: 0, toMs: 0 },
  slowShare: 0,
  slowMs: 0,
  delayBy: 'text',
  fault: { kind: 'none' },
  faultShare: 0,
  faultBy: 'arrival',
  concurrency: 0,
  seed: 1,
}

/** The behaviour with a change applied. A fault without a share strikes every request. */
export function changed(behaviour: Behaviour, change: BehaviourChange): Behaviour {
  const { delayMs, ...rest } = change
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
  const next: Behaviour = { ...behaviour, ...given }
  if (delayMs !== undefined) next.delay = { fromMs: delayMs, toMs: delayMs }
  if (change.fault !== undefined && change.faultShare === undefined) next.faultShare = 1
  return next
}

/** How long a text waits, in ms, from its draw (the tail's hash, or a running number). */
export function delayOfDraw(behaviour: Behaviour, draw: number): number {
  const { delay, slowShare, slowMs, seed } = behaviour
  if (slowShare > 0 && uniform(draw, seed, 1) < slowShare) return slowMs
  if (delay.fromMs === delay.toMs) return delay.fromMs
  return delay.fromMs + (delay.toMs - delay.fromMs) * uniform(draw, seed, 2)
}

/** Whether the fault strikes a draw. */
export function faultStrikes(behaviour: Behaviour, draw: number): boolean {
  const { fault, faultShare } = behaviour
  return fault.kind !== 'none' && faultShare > 0 && uniform(draw, behaviour.seed, 3) < faultShare
}

/** A number in [0, 1) that follows from a draw, the seed and the purpose (murmur3's finaliser). */
function uniform(draw: number, seed: number, purpose: number): number {
  let h = Math.imul(draw ^ Math.imul(seed, 0x9e3779b1) ^ Math.imul(purpose, 0x85ebca6b), 0xcc9e2d51)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return ((h ^ (h >>> 16)) >>> 0) / 0x1_0000_0000
}
