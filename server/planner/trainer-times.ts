import type { PlannedRewards, PlannerDto, PlannerInput } from '../contract/planner.ts'
import { ASSUMED_PHASES, type Phases } from '../contract/strategies.ts'

const PHASES = Object.keys(ASSUMED_PHASES) as (keyof Phases)[]

/**
 * Completes the given trainer times. If the trainer waits for every reward before it trains, the trainer time is the
 * recorded step time minus the recorded reward wait. The part of the trainer time that the given times do not cover is
 * split over the missing times in the proportions of the assumed times. If the trainer time is zero or negative,
 * rewards and training overlapped, and the missing times take their assumed values.
 */
export function trainerTimes(
  given: PlannerInput['phases'],
  { recordedStepMs, recordedWaitMs }: Pick<PlannedRewards, 'recordedStepMs' | 'recordedWaitMs'>,
): Pick<PlannerDto, 'phases' | 'phasesFrom'> {
  const omitted = PHASES.filter((phase) => given[phase] === undefined)
  const phases: Phases = { ...ASSUMED_PHASES }
  let restMs =
    recordedStepMs === null || recordedWaitMs === null ? 0 : recordedStepMs - recordedWaitMs
  const phasesFrom = omitted.length === 0 ? 'input' : restMs > 0 ? 'record' : 'assumption'
  const unitMs = restMs >= 10_000 ? 100 : 1
  for (const phase of PHASES) {
    phases[phase] = given[phase] ?? ASSUMED_PHASES[phase]
    restMs -= given[phase] ?? 0
  }
  if (phasesFrom === 'record') {
    const sumMs = omitted.reduce((sum, phase) => sum + ASSUMED_PHASES[phase], 0)
    for (const phase of omitted) {
      const share = (Math.max(0, restMs) * ASSUMED_PHASES[phase]) / sumMs
      phases[phase] = Math.round(share / unitMs) * unitMs
    }
  }
  return { phases, phasesFrom }
}
