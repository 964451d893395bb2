import type { ApiKeyDto } from '../../server/contract/access.ts'
import { ACCESS_WORDS } from './role-words.ts'

export function KeyLimits({ of: { access, runPrefix } }: { of: ApiKeyDto }) {
  if (access === 'full' && runPrefix === null) return <span className="text-ink-3">None</span>
  return (
    <span className="whitespace-nowrap">
      {access !== 'full' && (
        <span title={ACCESS_WORDS[access].about}>{ACCESS_WORDS[access].label}</span>
      )}
      {access !== 'full' && runPrefix !== null && ', '}
      {runPrefix !== null && (
        <span title={`Only runs whose names begin with ${runPrefix}`}>
          {access === 'full' ? 'Runs' : 'runs'}{' '}
          <span className="font-mono text-xs">{runPrefix}…</span>
        </span>
      )}
    </span>
  )
}
