import { randomUUID } from 'node:crypto'
import type { AlertKind, AlertPayload } from '../../contract/alerts.ts'
import {
  FLEET_DEFINITIONS,
  type FleetMonitorName,
  MONITOR_DEFINITIONS,
  type MonitorName,
  type Severity,
} from '../../contract/monitors.ts'

export type AlertSubject = Pick<
  AlertPayload,
  'severity' | 'run' | 'split' | 'step' | 'batchId' | 'subject' | 'value' | 'threshold' | 'detail'
> & { monitor: MonitorName | FleetMonitorName; incidentId: number | null; at: Date }

/** The body sent to webhooks. Its id is unique, so receivers can recognize repeated deliveries. */
export function alertPayload(kind: AlertKind, of: AlertSubject): AlertPayload {
  const { monitor, at, incidentId, ...fields } = of
  const label = labelOf(monitor)
  const where = of.run === null ? (of.subject ?? '') : splitOf(of.run, of.split)
  const title = `${label}: ${where}`
  return {
    version: 1,
    id: randomUUID(),
    kind,
    test: kind === 'test',
    at: at.toISOString(),
    monitor,
    title,
    text: textOf(kind, of, title),
    ...fields,
    incidentId: incidentId === null ? null : `i${incidentId}`,
    path: pathOf(of),
  }
}

export function testPayload(webhook: string): AlertPayload {
  const payload = alertPayload('test', {
    ...{ monitor: 'failures', severity: 'warning', run: 'test', split: 'train', step: 0 },
    ...{ batchId: null, subject: null, value: 0.05, threshold: 0.02, incidentId: null },
    detail: `sent by the test button of “${webhook}”`,
    at: new Date(),
  })
  return { ...payload, text: `[test] rewardops reaches “${webhook}”. No action is needed.` }
}

/** Returns the body of a delivery. `basePath` is put before the page's path. */
export function alertBody(payload: AlertPayload, basePath: string): string {
  return JSON.stringify({ ...payload, path: basePath + payload.path })
}

export function valueText(monitor: MonitorName | FleetMonitorName, value: number | null): string {
  if (value === null) return '–'
  const unit = monitor in MONITOR_DEFINITIONS ? unitOf(monitor as MonitorName) : null
  if (unit === 'score') return String(Number(value.toPrecision(5)))
  return unit === 'share' ? shareText(value) : value.toFixed(2)
}

/** A share in percent with at most one decimal. Only 1 becomes `100 %`, and only 0 becomes `0 %`. */
export function shareText(share: number): string {
  const percent = Number((share * 100).toFixed(1))
  if (percent === 100 && share < 1) return '>99.9 %'
  return percent === 0 && share > 0 ? '<0.1 %' : `${percent} %`
}

function unitOf(monitor: MonitorName) {
  return MONITOR_DEFINITIONS[monitor].unit
}

export function labelOf(monitor: MonitorName | FleetMonitorName): string {
  return monitor in MONITOR_DEFINITIONS
    ? MONITOR_DEFINITIONS[monitor as MonitorName].label
    : FLEET_DEFINITIONS[monitor as FleetMonitorName].label
}

const WORDS: Record<AlertKind, (severity: Severity) => string> = {
  opened: (severity) => severity,
  escalated: (severity) => `now ${severity}`,
  resolved: () => 'resolved',
  test: () => 'test',
}

function textOf(kind: AlertKind, of: AlertSubject, title: string): string {
  const value =
    of.value === null
      ? ''
      : `: ${valueText(of.monitor, of.value)}, threshold ${valueText(of.monitor, of.threshold)}`
  const step = of.step === null ? '' : ` at step ${of.step}`
  const detail = of.detail === null ? '' : ` (${of.detail})`
  return `[${WORDS[kind](of.severity)}] ${title}${step}${value}${detail}`
}

function splitOf(run: string, split: 'train' | 'val' | null): string {
  return split === 'val' ? `${run}, validation` : run
}

function pathOf({ run, split, monitor }: AlertSubject): string {
  if (run === null) return '/servers'
  const search = split === 'val' ? '?split=val' : ''
  return `/runs/${encodeURIComponent(run)}${search}#monitor-${monitor}`
}
