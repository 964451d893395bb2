import type { WebhookDto } from '../../server/contract/alerts.ts'
import { FLEET_MONITORS, MONITORS, type Severity } from '../../server/contract/monitors.ts'
import { MAX_LISTED_RUNS } from '../../server/contract/runs.ts'

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

/**
 * The fields of a webhook that notifies on the selected monitors. At least one monitor must be selected. If the
 * selection equals that of `stored`, the fields of `stored` are returned unchanged.
 */
export function subscriptionOf(
  selected: Readonly<Monitors>,
  stored: Subscription | null = null,
): Subscription {
  if (stored !== null && String(selectedMonitors(stored)) === String(inOrder(selected))) {
    return { monitors: stored.monitors, fleet: stored.fleet }
  }
  const [ofRuns, ofServers] = [MONITORS, FLEET_MONITORS].map((group: Readonly<Monitors>) =>
    inOrder(selected, group),
  ) as [Monitors, Monitors]
  // An empty list means all monitors, including those that a later version adds.
  const areAll =
    ofRuns.length === MONITORS.length &&
    (ofServers.length === 0 || ofServers.length === FLEET_MONITORS.length)
  return { monitors: areAll ? [] : [...ofRuns, ...ofServers], fleet: ofServers.length > 0 }
}

function inOrder(
  selected: Readonly<Monitors>,
  group: Readonly<Monitors> = [...MONITORS, ...FLEET_MONITORS],
): Monitors {
  return group.filter((monitor) => selected.includes(monitor))
}

/** The severities that a webhook can notify on. */
export const SEVERITY_CHOICES = [
  { value: 'all', label: 'Warnings and alerts' },
  { value: 'warning', label: 'Warnings only' },
  { value: 'alerting', label: 'Alerts only' },
] as const
export type SeverityChoice = (typeof SEVERITY_CHOICES)[number]['value']

export function severityChoice(severities: readonly Severity[]): SeverityChoice {
  const [first = 'all', ...others] = new Set(severities)
  return others.length === 0 ? first : 'all'
}

export function severitiesOf(choice: SeverityChoice): Severity[] {
  return choice === 'all' ? ['warning', 'alerting'] : [choice]
}

/** The runs of a webhook as a text with one name per line, because a name may contain commas. */
export function runsText(runs: readonly string[]): string {
  return runs.join('\n')
}

/**
 * Reads {@link runsText} as the user edited it. Lines are trimmed, except for the names in `stored`, the runs before
 * the edit.
 */
export function readRuns(text: string, stored: readonly string[] = []): string[] {
  if (text === runsText(stored)) return [...stored]
  const names = text
    .split('\n')
    .map((line) => (stored.includes(line) ? line : line.trim()))
    .filter((name) => name !== '')
  return [...new Set(names)]
}

/**
 * The names without a run in `listed`, the output of `runs.list`. Empty if that list is not loaded or may be incomplete.
 */
export function unknownRuns(
  names: readonly string[],
  listed: readonly { name: string }[] | undefined,
): string[] {
  if (listed === undefined || listed.length >= MAX_LISTED_RUNS) return []
  return names.filter((name) => listed.every((run) => run.name !== name))
}
