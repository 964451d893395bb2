import { RewardOpsError } from '../errors.ts'
import { abilitiesOf, type EngineName } from '../router/server-admission.ts'
import type { ServerRow } from '../store/sql/servers.ts'

/** There is no way to put this server to sleep, and what it takes to have one. */
export function cannotSleep(row: ServerRow): RewardOpsError {
  const sleeps = abilitiesOf(row.engine as EngineName).sleeps
  return new RewardOpsError(
    'server_cannot_sleep',
    sleeps
      ? `${row.name} offers no way to be put to sleep.`
      : `${row.name}: ${row.engine} knows no sleep.`,
    sleeps
      ? {
          hint:
            row.engine === 'sglang'
              ? 'Start it with --enable-memory-saver.'
              : 'Start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1.',
        }
      : {},
  )
}

/** Not in the state it is in. */
export function notNow(row: ServerRow, what: string): RewardOpsError {
  if (row.state === 'unreachable' || row.state === 'dead') {
    return new RewardOpsError(
      'server_unreachable',
      `${row.name} cannot be ${what}: ${row.state_cause ?? row.state}.`,
    )
  }
  return new RewardOpsError(
    'server_busy',
    `${row.name} cannot be ${what} while it is ${row.state} (${row.state_cause ?? 'no cause'}).`,
  )
}
