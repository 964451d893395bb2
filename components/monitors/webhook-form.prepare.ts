import type { WebhookDto } from '../../server/contract/alerts.ts'
import { FLEET_MONITORS, MONITORS } from '../../server/contract/monitors.ts'

type Subscription = Pick<WebhookDto, 'monitors' | 'fleet'>
type Monitors = WebhookDto['monitors']

export const MONITOR_GROUPS: readonly { label: string; monitors: Readonly<Monitors> }[] = [
  { label: 'Run monitors', monitors: MONITORS },
  { label: 'Server monitors', monitors: FLEET_MONITORS },
]

export function selectedMonitors({ monitors, fleet }: Subscription): Monitors {
  const isSelected = (monitor: Monitors[number]) =>
    monitors.length === 0 || monitors.includes(monitor)
  return [...MONITORS, ...(fleet ? FLEET_MONITORS : [])].filter(isSelected)
}

/** The fields of a webhook that notifies on the selected monitors. At least one must be selected. */
export function subscriptionOf(selected: Readonly<Monitors>): Subscription {
  const [ofRuns, ofServers] = [MONITORS, FLEET_MONITORS].map((group: Readonly<Monitors>) =>
    group.filter((monitor) => selected.includes(monitor)),
  ) as [Monitors, Monitors]
  // An empty list also includes monitors that a later version adds.
  const areAll =
    ofRuns.length === MONITORS.length &&
    (ofServers.length === 0 || ofServers.length === FLEET_MONITORS.length)
  return { monitors: areAll ? [] : [...ofRuns, ...ofServers], fleet: ofServers.length > 0 }
}
