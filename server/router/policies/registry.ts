import { isPolicyName, POLICY_NAMES } from '../../contract/pools.ts'
import { deterministic } from './deterministic.ts'
import { groupAffinity } from './group-affinity.ts'
import { leastConnections } from './least-connections.ts'
import { leastWork } from './least-work.ts'
import { peakEwma } from './peak-ewma.ts'
import type { BalancingPolicy, PolicyName } from './policy.ts'
import { powerOfTwo } from './power-of-two.ts'
import { roundRobin } from './round-robin.ts'
import { weightedRandom } from './weighted-random.ts'

/**
 * Default seed of the policies that hash. It is the same in all processes, so that they send a group to the same
 * server.
 */
const SHARED_SEED = 0

const MAKERS: Record<PolicyName, (seed: number | undefined) => BalancingPolicy> = {
  least_work: leastWork,
  least_connections: leastConnections,
  power_of_two: (seed = anySeed()) => powerOfTwo(seed),
  peak_ewma: peakEwma,
  round_robin: roundRobin,
  weighted_random: (seed = anySeed()) => weightedRandom(seed),
  group_affinity: (seed = SHARED_SEED) => groupAffinity(seed),
  deterministic: (seed = SHARED_SEED) => deterministic(seed),
}

/**
 * Creates a policy by name, for one pool. `seed` (32 bits) applies to policies that use random numbers or hashes.
 * Without it, random policies use a random seed, so that processes differ, and hashing policies a constant seed, so
 * that processes agree.
 * @throws RangeError for a name outside {@link POLICY_NAMES}
 */
export function policyNamed(name: string, options: { seed?: number } = {}): BalancingPolicy {
  if (!isPolicyName(name)) {
    throw new RangeError(`unknown policy "${name}"; known: ${POLICY_NAMES.join(', ')}`)
  }
  return MAKERS[name](options.seed)
}

function anySeed(): number {
  return Math.floor(Math.random() * 2 ** 32)
}
