import {
  MONITOR_DEFINITIONS,
  MONITORS,
  type MonitorName,
  type MonitorSettingDto,
  type Severity,
  WINDOW,
} from '../contract/monitors.ts'
import type { Client } from '../store/database.ts'
import { queueEvent } from '../store/sql/alert-outbox.ts'
import {
  figuresOf,
  type MonitoredBatch,
  type StoredValue,
  storeEvaluation,
  takeToMonitor,
  windowBefore,
} from '../store/sql/monitor-batches.ts'
import {
  closeIncident,
  monitorSettings,
  openIncident,
  standingsOf,
  storeStandings,
  worsenIncident,
} from '../store/sql/monitor-state.ts'
import { alertPayload } from './alerts/alert-payload.ts'
import { type Reading, readMonitors, referenceOf } from './definitions.ts'
import { advance, newStanding, type Standing } from './hysteresis.ts'
import { settingsOf } from './monitor-settings.ts'

/**
 * Evaluates the monitors of an ended batch and stores readings, states, incidents and alerts. The caller's transaction
 * also marks the batch as evaluated, so a retry changes nothing. Returns true if an alert may be waiting for delivery.
 */
export async function checkBatch(client: Client, batchId: number): Promise<boolean> {
  const batch = await takeToMonitor(client, batchId)
  if (!batch?.counts) return false
  const figures = await figuresOf(client, batch.id)
  if (figures === undefined) return false
  const window = await windowBefore(client, batch, WINDOW)
  const settings = settingsOf(await monitorSettings(client, [0, batch.run_id]), batch.run_id)
  const standings = await standingsOf<Standing>(client, batch.run_id, batch.split)
  const watched = {
    ...{ figures, window, signals: batch.group_signals, reward: batch.reward },
    reference: standings.variance_collapse?.reference ?? null,
  }
  const readings = readMonitors(watched)
  const values = {} as Record<MonitorName, StoredValue>
  let hasAlert = false
  for (const monitor of MONITORS) {
    const before = standings[monitor] ?? newStanding()
    const reading = readings[monitor]
    const limits = { ...MONITOR_DEFINITIONS[monitor], ...settings[monitor] }
    const { after, change } = advance(before, reading, batch.step, limits)
    if (monitor === 'variance_collapse') {
      const isOpen = after.state === 'warning' || after.state === 'alerting'
      after.reference = isOpen ? referenceOf(watched) : null
    }
    if (change !== null) {
      await follow(client, batch, { monitor, before, after, change, reading, limits })
      hasAlert = true
    } else if (after.incident !== null && after.worst !== before.worst) {
      await worsenIncident(client, after.incident, {
        ...{ severity: null, worst: after.worst, worstStep: after.worstStep },
      })
    }
    standings[monitor] = after
    values[monitor] = { ...reading, state: limits.enabled ? after.state : 'off' }
  }
  await storeEvaluation(client, batch, values)
  await storeStandings(
    client,
    {
      ...{ runId: batch.run_id, split: batch.split, step: batch.step, batchId: batch.id },
      at: batch.completed_at,
    },
    standings,
  )
  return hasAlert
}

async function follow(
  client: Client,
  batch: MonitoredBatch,
  step: {
    monitor: MonitorName
    before: Standing
    after: Standing
    change: 'opened' | 'escalated' | 'eased' | 'resolved'
    reading: Reading
    limits: MonitorSettingDto
  },
): Promise<void> {
  const { monitor, after, change, reading, limits } = step
  if (change === 'eased') return
  const at = { step: batch.step, batchId: batch.id, value: reading.value, at: batch.completed_at }
  let severity = after.state as Severity
  if (change === 'opened') {
    after.incident = await openIncident(client, {
      ...{ monitor, runId: batch.run_id, split: batch.split, subject: null, severity },
      ...{ threshold: limits[severity], detail: reading.detail, ...at },
    })
  } else if (change === 'escalated' && after.incident !== null) {
    await worsenIncident(client, after.incident, {
      ...{ severity, worst: after.worst, worstStep: after.worstStep },
    })
  }
  const incidentId = change === 'resolved' ? step.before.incident : after.incident
  if (change === 'resolved' && incidentId !== null) {
    const closed = await closeIncident(client, incidentId, at)
    after.incident = null
    // Disabling a monitor resolves its incident, but the user who disabled it needs no alert.
    if (closed === undefined || !limits.enabled) return
    severity = closed.severity as Severity
  }
  const payload = alertPayload(change, {
    ...{ monitor, severity, run: batch.run, split: batch.split, step: batch.step },
    ...{ batchId: `b${batch.id}`, subject: null, value: reading.value, detail: reading.detail },
    ...{ threshold: limits[severity], incidentId, at: batch.completed_at },
  })
  await queueEvent(client, {
    ...{ id: payload.id, incidentId, kind: change, payload: { ...payload } },
    ...{ monitor, severity, run: batch.run, happenedAt: batch.completed_at },
  })
}
