import type { Logger } from '../log.ts'
import { Listener } from '../store/listener.ts'
import type { ServerModules } from './modules.ts'
import type { Scoring } from './scoring.ts'

/** Creates the connection on which this process receives changes made by other processes; see `store/channels.ts`. */
export function createNotifications(
  url: string,
  { signals, manager, models, servers }: Scoring,
  { live, keys }: ServerModules,
  log: Logger,
): Listener {
  return new Listener(
    url,
    log,
    {
      batchChanged(id) {
        signals.notify(Number(id))
        live.touch('overview', 'batches', 'samples', `batch:b${id}`)
      },
      batchFailed(id) {
        manager
          .endFailed(Number(id))
          .catch((error: Error) =>
            log.warn({ err: error.message }, 'a failed batch could not be ended'),
          )
      },
      workersChanged: () => live.touch('workers', 'overview'),
      keysChanged: () => keys.changed(),
      serversChanged() {
        void servers.reload()
        models.endLost()
        live.touch('servers', 'overview')
      },
      monitorsChanged: () => live.touch('monitors', 'overview'),
      marksChanged: () => live.touch('marks'),
      runsChanged: () => live.touch('runs'),
    },
    () => {
      void servers.reload()
      models.endLost()
      keys.changed()
      signals.notifyAll()
    },
  )
}
