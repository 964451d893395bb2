import { FLEET_DEFINITIONS, type FleetMonitorName } from '../contract/monitors.ts'
import { databaseNow } from '../store/clock.ts'
import type { Client } from '../store/database.ts'
import { queueEvent } from '../store/sql/alert-outbox.ts'
import {
  closeIncident,
  type FleetServerRow,
  fleetServers,
  openFleetIncidents,
  openIncident,
} from '../store/sql/monitor-state.ts'
import { alertPayload } from './alerts/alert-payload.ts'

const OUT: ReadonlySet<string> = new Set(['unreachable', 'dead', 'quarantined'])
/** States in which a server is not available yet. They open no incident, and end none. */
const RETURNING: ReadonlySet<string> = new Set(['registering', 'probing'])
/** Minimum duration of an outage that opens an incident, ms. Shorter outages are restarts or lost probes. */
const OUT_FOR_MS = 10_000

export interface FleetCondition {
  monitor: FleetMonitorName
  subject: string
  detail: string
}

function opens({ state, for_ms }: FleetServerRow): boolean {
  return OUT.has(state) && for_ms >= OUT_FOR_MS
}

/**
 * Whether an open incident of the server stays open. A server may be unreachable, then tested and then quarantined,
 * without having been available in between.
 */
function lasts({ state }: FleetServerRow): boolean {
  return OUT.has(state) || RETURNING.has(state)
}

/** Returns the conditions that open an incident or, with {@link lasts} as `isOut`, that keep an open incident open. */
export function fleetConditions(
  servers: readonly FleetServerRow[],
  isOut: (server: FleetServerRow) => boolean = opens,
): FleetCondition[] {
  const out = servers.filter(isOut).map(({ name, state, state_cause }): FleetCondition => {
    return {
      ...{ monitor: 'server_unavailable', subject: name },
      detail: state_cause === null ? state : `${state}: ${state_cause}`,
    }
  })
  const models = [...Map.groupBy(servers, ({ model }) => model)].filter(([, of]) => of.every(isOut))
  const bare = models.map(([model, of]): FleetCondition => {
    const n =
      of.length === 1
        ? 'its only server is unavailable'
        : `all ${of.length} servers are unavailable`
    return { monitor: 'no_healthy_server', subject: model, detail: n }
  })
  return [...bare, ...out]
}

/** Opens and closes the fleet's incidents in the caller's transaction. Returns true if any changed. */
export async function checkFleet(client: Client): Promise<boolean> {
  const servers = await fleetServers(client)
  const open = await openFleetIncidents(client)
  const keyOf = ({ monitor, subject }: { monitor: string; subject: string }) =>
    `${monitor} ${subject}`
  const lasting = new Set(fleetConditions(servers, lasts).map(keyOf))
  const there = new Set(open.map(keyOf))
  const at = await databaseNow(client)
  const nowhere = { ...{ run: null, split: null, step: null, batchId: null }, value: null }
  let changed = false
  for (const condition of fleetConditions(servers).filter((one) => !there.has(keyOf(one)))) {
    const { monitor, subject, detail } = condition
    const { severity } = FLEET_DEFINITIONS[monitor]
    const incidentId = await openIncident(client, {
      ...{ ...nowhere, runId: null, threshold: null, monitor, subject, severity, detail, at },
    })
    await tell(client, 'opened', { monitor, subject, detail, incidentId, at })
    changed = true
  }
  for (const incident of open.filter((one) => !lasting.has(keyOf(one)))) {
    const { id: incidentId, subject } = incident
    const monitor = incident.monitor as FleetMonitorName
    await closeIncident(client, incidentId, { ...nowhere, at })
    await tell(client, 'resolved', { monitor, subject, detail: null, incidentId, at })
    changed = true
  }
  return changed
}

async function tell(
  client: Client,
  kind: 'opened' | 'resolved',
  of: {
    monitor: FleetMonitorName
    subject: string
    detail: string | null
    incidentId: number
    at: Date
  },
): Promise<void> {
  const { severity } = FLEET_DEFINITIONS[of.monitor]
  const payload = alertPayload(kind, {
    ...{ ...of, severity, run: null, split: null, step: null, batchId: null },
    ...{ value: null, threshold: null },
  })
  await queueEvent(client, {
    ...{ id: payload.id, incidentId: of.incidentId, kind, payload: { ...payload } },
    ...{ monitor: of.monitor, severity, run: null, happenedAt: of.at },
  })
}
