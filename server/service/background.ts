import { GroupRollUps } from '../background/group-roll-ups.ts'
import { Sweeps } from '../background/sweeps.ts'
import type { Logger } from '../log.ts'
import { AlertSender } from '../monitoring/alerts/alert-sender.ts'
import { MonitorLoop } from '../monitoring/monitor-loop.ts'
import type { ServerModules } from './modules.ts'
import type { Stores } from './stores.ts'

/** A part that works by itself from `start` until `stop` resolves. */
export interface Part {
  start(): void
  stop(): Promise<void>
}

/** Work that is done by the clock. Of several servers on one database, one does each kind. */
export interface Background {
  sweeps: Sweeps
  /** All of it, in the order in which it starts. */
  parts: readonly Part[]
}

/** Makes the background work; nothing of it starts here. */
export function createBackground(
  { manager, retention, readiness }: ServerModules,
  { databases, queue, turns }: Stores,
  log: Logger,
): Background {
  const db = databases.api
  const sweeps = new Sweeps({
    db,
    queue,
    log,
    closeBatch: (id) => manager.closeById(id),
    isTurn: () => turns.has('sweeps'),
    isRecovering: () => readiness.isRecovering,
  })
  const alerts = new AlertSender(db, log)
  const monitorLoop = new MonitorLoop(
    db,
    log,
    () => alerts.wake(),
    () => turns.has('monitors'),
  )
  const groupRollUps = new GroupRollUps(db, log, () => turns.has('group roll-ups'))
  return { sweeps, parts: [sweeps, groupRollUps, retention, alerts, monitorLoop] }
}
