import { hash32, Random } from './random.ts'
import { SETUPS, type Setup, setupNamed } from './setups.ts'
import type { LinkMode } from './tcp-proxy.ts'

/** What a fault strikes. */
export const KINDS = [
  'server-kill',
  'server-stop',
  'server-term',
  'worker-kill',
  'worker-stop',
  'worker-term',
  'postgres-kill',
  'postgres-stop',
  'postgres-term',
  'backend-kill',
  'backend-term',
  'rm-kill',
  'rm-stop',
  'rm-term',
  'trainer-kill',
  'trainer-stop',
  'trainer-term',
  'all-kill',
  'net-trainer',
  'net-postgres',
  'net-rm',
  'read-only',
  'disk-full',
  'clock-step',
  'failover',
  'none',
] as const
export type FaultKind = (typeof KINDS)[number]

/** One fault of a schedule. */
export interface Fault {
  kind: FaultKind
  /** After the trainer's first acknowledgement, ms. */
  atMs: number
  /** Until it is healed or its victim is started again, ms. */
  forMs: number
  /** Which of several victims, taken modulo their number. */
  target: number
  mode?: LinkMode
  delayMs?: number
  /** Of a clock, s. */
  stepS?: number
}

/** All that follows from a seed. */
export interface Schedule {
  seed: number
  setup: Setup
  faults: Fault[]
}

/** Faults that need something which only some setups have. */
const NEEDS: Partial<Record<FaultKind, (setup: Setup) => boolean>> = {
  'postgres-term': (setup) => setup.database === 'own',
  'net-postgres': (setup) => setup.database === 'own',
  'read-only': (setup) => !setup.hasStandby,
  'disk-full': (setup) => setup.diskMb !== null,
  'clock-step': (setup) => setup.extraWorkers > 0,
  failover: (setup) => setup.hasStandby,
  'worker-term': () => true,
}

/** Setups whose reason for being is one kind of fault strike with it half of the time. */
const OWN_KIND: Record<string, FaultKind> = { standby: 'failover', 'small-disk': 'disk-full' }

/** Whether a kind can strike in a setup. */
export function canStrike(kind: FaultKind, setup: Setup): boolean {
  return NEEDS[kind]?.(setup) ?? true
}

/** What is fixed from outside; everything else is drawn. */
export interface Wishes {
  setup?: string | undefined
  kinds?: readonly FaultKind[] | undefined
  /** How long every fault lasts, ms. */
  forMs?: number | undefined
}

/** Draws the schedule of a seed. */
export function scheduleOf(seed: number, wishes: Wishes = {}): Schedule {
  const random = new Random(hash32(`schedule/${seed}`))
  const kinds = wishes.kinds ?? KINDS.filter((kind) => kind !== 'none')
  const fitting = SETUPS.filter((setup) => kinds.some((kind) => canStrike(kind, setup)))
  const drawn = random.pick(fitting)
  const setup = wishes.setup === undefined ? drawn : setupNamed(wishes.setup)
  const possible = kinds.filter((kind) => canStrike(kind, setup))
  if (possible.length === 0) throw new Error(`no fault of ${kinds} can strike in ${setup.name}`)
  const count = wishes.kinds?.length === 1 ? 1 : random.pick([1, 1, 2, 2, 3])
  const faults: Fault[] = []
  for (let k = 0; k < count; k++) {
    const own = OWN_KIND[setup.name]
    const isOwn = k === 0 && own !== undefined && possible.includes(own) && random.chance(0.5)
    faults.push(faultOf(isOwn ? own : random.pick(possible), setup, random))
  }
  if (wishes.forMs !== undefined) for (const fault of faults) fault.forMs = wishes.forMs
  return { seed, setup, faults: faults.sort((a, b) => a.atMs - b.atMs) }
}

function faultOf(kind: FaultKind, setup: Setup, random: Random): Fault {
  const fault: Fault = {
    kind,
    atMs: Math.round(random.logUniform(300, 7_000)),
    forMs: random.faultMs(),
    target: random.int(0, 5),
  }
  if (kind === 'none') return { ...fault, forMs: 0 }
  // A disk that stays full or a standby that waits cost time and show nothing more.
  if (kind === 'disk-full' || kind === 'read-only') fault.forMs = random.faultMs(12_000)
  if (kind.startsWith('net-')) {
    fault.mode = random.pick(['refuse', 'hold', 'hold-up', 'hold-down', 'delay'] as const)
    if (fault.mode === 'delay') fault.delayMs = Math.round(random.logUniform(5, 3_000))
    fault.forMs = random.faultMs(15_000)
  }
  if (kind === 'clock-step') fault.stepS = random.pick([-3_600, -60, -5, 5, 60, 3_600])
  if (kind.endsWith('-kill') && setup.database === 'embedded' && kind === 'postgres-kill')
    fault.forMs = 0
  return fault
}

/** A fault in a few words, for the episode's line. */
export function describeFault(fault: Fault): string {
  const more = [
    fault.mode,
    fault.delayMs === undefined ? undefined : `${fault.delayMs}ms`,
    fault.stepS === undefined ? undefined : `${fault.stepS}s`,
  ].filter((part) => part !== undefined)
  const how = more.length > 0 ? `(${more.join(' ')})` : ''
  return `${fault.kind}${how}@${(fault.atMs / 1_000).toFixed(1)}s/${(fault.forMs / 1_000).toFixed(1)}s`
}
