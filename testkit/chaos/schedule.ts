import { hash32, Random } from './random.ts'
import { SETUPS, type Setup, setupNamed } from './setups.ts'
import type { LinkMode } from './tcp-proxy.ts'

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

export interface Fault {
  kind: FaultKind
  /** Time from the trainer's first acknowledgement to the fault, ms. */
  atMs: number
  /** Duration of the fault, after which it is healed or its victim restarted, ms. */
  forMs: number
  /** Selects the victim, modulo the number of possible victims. */
  target: number
  mode?: LinkMode
  delayMs?: number
  /** Number of seconds by which the clock of a worker jumps. */
  stepS?: number
}

export interface Schedule {
  seed: number
  setup: Setup
  faults: Fault[]
}

const NEEDS: Partial<Record<FaultKind, (setup: Setup) => boolean>> = {
  'postgres-term': (setup) => setup.database === 'own',
  'net-postgres': (setup) => setup.database === 'own',
  'read-only': (setup) => !setup.hasStandby,
  'disk-full': (setup) => setup.diskMb !== null,
  'clock-step': (setup) => setup.extraWorkers > 0,
  failover: (setup) => setup.hasStandby,
  'worker-term': () => true,
}

/** Setups made for one kind of fault. At least half of their schedules have a fault of this kind. */
const OWN_KIND: Record<string, FaultKind> = { standby: 'failover', 'small-disk': 'disk-full' }

export function canStrike(kind: FaultKind, setup: Setup): boolean {
  return NEEDS[kind]?.(setup) ?? true
}

export interface Wishes {
  setup?: string | undefined
  kinds?: readonly FaultKind[] | undefined
  forMs?: number | undefined
}

export function scheduleOf(seed: number, wishes: Wishes = {}): Schedule {
  const random = new Random(hash32(`schedule/${seed}`))
  const kinds = wishes.kinds ?? KINDS.filter((kind) => kind !== 'none')
  const fitting = SETUPS.filter((setup) => kinds.some((kind) => canStrike(kind, setup)))
  const drawn = random.pick(fitting)
  const setup = wishes.setup === undefined ? drawn : setupNamed(wishes.setup)
  const possible = kinds.filter((kind) => canStrike(kind, setup))
  if (possible.length === 0)
    throw new Error(`setup ${setup.name} supports none of the faults ${kinds}`)
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
  // A longer outage of these kinds costs time and reveals nothing more.
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

export function describeFault(fault: Fault): string {
  const more = [
    fault.mode,
    fault.delayMs === undefined ? undefined : `${fault.delayMs}ms`,
    fault.stepS === undefined ? undefined : `${fault.stepS}s`,
  ].filter((part) => part !== undefined)
  const how = more.length > 0 ? `(${more.join(' ')})` : ''
  return `${fault.kind}${how}@${(fault.atMs / 1_000).toFixed(1)}s/${(fault.forMs / 1_000).toFixed(1)}s`
}
