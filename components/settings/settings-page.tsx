'use client'

import { AlertSettings } from '../monitors/alert-settings.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { Segmented } from '../ui/field.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { AboutView } from './about-view.tsx'
import { AccessView } from './access-view.tsx'
import { AuditView } from './audit-view.tsx'
import { LimitsView } from './limits-view.tsx'
import { RetentionView } from './retention-view.tsx'

const TABS: readonly { value: SettingsTab; label: string }[] = [
  { value: 'access', label: 'Access' },
  { value: 'limits', label: 'Limits' },
  { value: 'retention', label: 'Retention' },
  { value: 'alerts', label: 'Alerts' },
  { value: 'audit', label: 'Audit' },
  { value: 'about', label: 'About' },
]

const ABOUT: Record<SettingsTab, string> = {
  access: 'API keys, roles and sessions.',
  limits: 'Limits per run, so that one run cannot block the others.',
  retention: 'Removal of old data.',
  alerts: 'Webhooks that receive alerts.',
  audit: 'Recorded changes, with their actors and values.',
  about: 'Versions, disk use and active settings.',
}

export function SettingsPage() {
  const [view, setView] = useUrl(settingsUrl)
  return (
    <>
      <PageHeader title="Settings" />
      <div className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 border-b px-5 py-2">
        <Segmented
          label="Section"
          value={view.tab}
          options={TABS}
          onChange={(tab) => setView({ tab }, 'push')}
        />
        <p className="text-xs text-ink-3">{ABOUT[view.tab]}</p>
      </div>
      {view.tab === 'access' && (
        <AccessView create={view.create} onCreate={(create) => setView({ create }, 'push')} />
      )}
      {view.tab === 'limits' && <LimitsView />}
      {view.tab === 'retention' && <RetentionView />}
      {view.tab === 'alerts' && <AlertSettings />}
      {view.tab === 'audit' && (
        <AuditView actor={view.actor} action={view.action} onFilter={(to) => setView(to)} />
      )}
      {view.tab === 'about' && <AboutView />}
    </>
  )
}

const SETTINGS_TABS = ['access', 'limits', 'retention', 'alerts', 'audit', 'about'] as const
type SettingsTab = (typeof SETTINGS_TABS)[number]

interface SettingsUrl {
  tab: SettingsTab
  create: boolean
  /** Filters of the audit log. */
  actor: string | null
  action: string | null
}

const settingsUrl: UrlCodec<SettingsUrl> = {
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
