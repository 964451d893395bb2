import { RewardOpsError } from '../errors.ts'
import { abilitiesOf } from '../router/server-admission.ts'
import type { ServerRow } from '../store/sql/servers.ts'

export function cannotSleep(row: ServerRow): RewardOpsError {
  const { lifecycle } = abilitiesOf(row.engine)
  return new RewardOpsError(
    'server_cannot_sleep',
    lifecycle === null
      ? `${row.name}: ${row.engine} does not support sleep.`
      : `${row.name} does not support sleep.`,
    lifecycle === null ? {} : { hint: lifecycle.hint },
  )
}

export function notNow(row: ServerRow, what: string): RewardOpsError {
  if (row.state === 'unreachable' || row.state === 'dead') {
    return new RewardOpsError(
      'server_unreachable',
      `${row.name} cannot be ${what}: ${row.stateCause ?? row.state}.`,
    )
  }
  return new RewardOpsError(
    'server_busy',
    `${row.name} cannot be ${what} while it is ${row.state} (${row.stateCause ?? 'no cause'}).`,
  )
}
