import { GroupRollUps } from '../background/group-roll-ups.ts'
import { Sweeps } from '../background/sweeps.ts'
import type { Tracing } from '../background/tracing.ts'
import type { Config, TracingConfig } from '../config.ts'
import type { Logger } from '../log.ts'
import { AlertSender } from '../monitoring/alerts/alert-sender.ts'
import { MonitorLoop } from '../monitoring/monitor-loop.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import { sealStored } from '../store/secret-keys.ts'
import type { ServerModules } from './modules.ts'
import type { Stores } from './stores.ts'

/** Interval at which secrets that an earlier version stored as plain text are encrypted, ms. */
const SEAL_EVERY_MS = 60_000

export interface Part {
  start(): void
  stop(): Promise<void>
}

/**
 * Periodic work. If several service processes use one database, only one of them at a time does each kind of work, but
 * all of them deliver alerts.
 */
export interface Background {
  sweeps: Sweeps
  /** Null if tracing is off. */
  tracing: Tracing | null
  /** All parts, in the order in which they start. */
  parts: readonly Part[]
}

export async function createBackground(
  config: Config,
  version: string,
  { manager, retention, readiness }: ServerModules,
  { databases, queue, turns }: Stores,
  log: Logger,
): Promise<Background> {
  const db = databases.api
  const sweeps = new Sweeps({
    db,
    queue,
    log,
    closeBatch: (id) => manager.closeById(id),
    isTurn: () => turns.has('sweeps'),
    isRecovering: () => readiness.isRecovering,
  })
  const alerts = new AlertSender(db, config.basePath, log)
  const monitorLoop = new MonitorLoop(
    db,
    log,
    () => alerts.wake(),
    () => turns.has('monitors'),
  )
  const groupRollUps = new GroupRollUps(db, log, () => turns.has('group roll-ups'))
  const unreadable = new Set<string>()
  const sealing = new PeriodicTask({
    everyMs: SEAL_EVERY_MS,
    atStart: true,
    failed: 'stored secrets were not encrypted',
    log,
    work: () => sealStored(db, log, unreadable),
  })
  const tracing = await openTracing(config.tracing)
  const parts = [sweeps, groupRollUps, retention, alerts, monitorLoop, sealing]
  return { sweeps, tracing, parts: tracing === null ? parts : [...parts, tracing] }

  /** Loads the packages of OpenTelemetry only if they are needed. */
  async function openTracing(settings: TracingConfig | null): Promise<Tracing | null> {
    if (settings === null) return null
    const { loadExporter, Tracing } = await import('../background/tracing.ts')
    return new Tracing({
      config: settings,
      exporter: await loadExporter(settings),
      version,
      db: databases.background,
      isTurn: () => turns.has('traces'),
      log,
    })
  }
}
