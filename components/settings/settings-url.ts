import type { UrlCodec } from '../url/use-url.ts'

/** The sections of the Settings page. */
export const SETTINGS_TABS = ['access', 'limits', 'retention', 'alerts', 'audit', 'about'] as const
export type SettingsTab = (typeof SETTINGS_TABS)[number]

/** The URL state of the Settings page. */
export interface SettingsUrl {
  tab: SettingsTab
  /** The form of a new key is open. */
  create: boolean
  /** Filters of the audit log. */
  actor: string | null
  action: string | null
}

export const settingsUrl: UrlCodec<SettingsUrl> = {
  parse(params) {
    const tab = params.get('tab')
    return {
      tab: SETTINGS_TABS.find((one) => one === tab) ?? 'access',
      create: params.get('create') === '1',
      actor: params.get('actor'),
      action: params.get('action'),
    }
  },
  write({ tab, create, actor, action }) {
    const params = new URLSearchParams()
    if (tab !== 'access') params.set('tab', tab)
    if (tab === 'access' && create) params.set('create', '1')
    if (tab === 'audit' && actor !== null) params.set('actor', actor)
    if (tab === 'audit' && action !== null) params.set('action', action)
    return params
  },
}
