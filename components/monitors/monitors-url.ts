import { FLEET_MONITORS, MONITORS } from '../../server/contract/monitors.ts'
import type { UrlCodec } from '../url/use-url.ts'

const MONITOR_TABS = ['now', 'history', 'alerts'] as const
export type MonitorTab = (typeof MONITOR_TABS)[number]

type AnyMonitor = (typeof MONITORS)[number] | (typeof FLEET_MONITORS)[number]

export interface MonitorsUrl {
  tab: MonitorTab
  /** The run whose monitors are listed. It also filters the history. */
  run: string | null
  split: 'train' | 'val'
  monitor: AnyMonitor | null
}

export const monitorsUrl: UrlCodec<MonitorsUrl> = {
  parse(params) {
    const [tab, monitor] = [params.get('tab'), params.get('monitor')]
    return {
      tab: MONITOR_TABS.find((one) => one === tab) ?? 'now',
      run: params.get('run'),
      split: params.get('split') === 'val' ? 'val' : 'train',
      monitor: [...MONITORS, ...FLEET_MONITORS].find((one) => one === monitor) ?? null,
    }
  },
  write({ tab, run, split, monitor }) {
    const params = new URLSearchParams()
    if (tab !== 'now') params.set('tab', tab)
    if (run !== null) params.set('run', run)
    if (split !== 'train') params.set('split', split)
    if (tab === 'history' && monitor !== null) params.set('monitor', monitor)
    return params
  },
}
