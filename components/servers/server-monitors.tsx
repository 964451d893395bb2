import { Check, CircleX, TriangleAlert } from 'lucide-react'
import type { MonitorKind, ServerDetailDto } from '../../server/contract/server-detail.ts'
import { Section } from '../ui/section.tsx'
import { MONITOR_WORDS } from './server-words.ts'

/** The server monitors with their current findings. */
export function ServerMonitors({
  server,
  className,
}: {
  server: ServerDetailDto
  className: string
}) {
  const kinds = Object.keys(MONITOR_WORDS) as MonitorKind[]
  const seen = new Set(server.monitors.map(({ kind }) => kind)).size
  return (
    <Section
      title="Monitors"
      note={
        seen === 0
          ? 'no findings, last 10 min'
          : `${seen} of ${kinds.length} with findings, last 10 min`
      }
      className={className}
    >
      <ul className="pb-3">
        {kinds.map((kind) => {
          const { name, watches } = MONITOR_WORDS[kind]
          const found = server.monitors.filter((monitor) => monitor.kind === kind)
          const worst = found.some((monitor) => monitor.severity === 'error')
          const Icon = found.length === 0 ? Check : worst ? CircleX : TriangleAlert
          const color = found.length === 0 ? 'text-ink-3' : worst ? 'text-bad' : 'text-warn'
          return (
            <li key={kind} className="flex items-start gap-2.5 px-5 py-1.5" data-monitor={kind}>
              <Icon
                size={14}
                className={`mt-[3px] shrink-0 ${color}`}
                aria-label={found.length === 0 ? 'no finding' : worst ? 'error' : 'warning'}
              />
              <span className="min-w-0">
                <span className={found.length === 0 ? '' : 'font-medium'}>{name}</span>
                {found.length === 0 ? (
                  <span className="block text-xs text-ink-3">{watches}</span>
                ) : (
                  found.map((monitor) => (
                    <span key={monitor.text} className="block text-ink-2">
                      {monitor.text}
                    </span>
                  ))
                )}
              </span>
            </li>
          )
        })}
      </ul>
    </Section>
  )
}
