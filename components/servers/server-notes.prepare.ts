import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { plural } from '../format/numbers.ts'
import { sentence } from '../format/text.ts'
import { MONITOR_WORDS, VERDICT_MEANING } from './server-words.ts'

export interface ServerNote {
  key: string
  level: 'error' | 'warning' | 'info'
  title: string
  text: string
}

const LEVELS: readonly ServerNote['level'][] = ['error', 'warning', 'info']

export function serverNotes(
  server: ServerDto,
  monitors: readonly ServerMonitorDto[],
): ServerNote[] {
  const notes: ServerNote[] = []
  const say = (level: ServerNote['level'], title: string, text: string) =>
    notes.push({ key: `${title} ${text}`, level, title, text })
  const seen = monitors.filter((monitor) => monitor.serverId === server.id)
  const { state, stateCause, inFlight, selfTest } = server
  const cause = stateCause ? sentence(stateCause) : ''
  if (state === 'unreachable') say('error', 'Unreachable', cause || 'The server does not respond.')
  else if (state === 'dead')
    say('error', 'Dead', `${cause} The server is probed once a minute.`.trim())
  else if (state === 'quarantined') say('error', 'Quarantined', whyKeptOut(server) || cause)
  else if (state === 'draining' && inFlight === 0)
    say('info', 'Drained', `No requests in flight. ${cause}`.trim())
  else if (state === 'draining')
    say('warning', 'Draining', `${plural(inFlight, 'request')} in flight. ${cause}`.trim())
  else if (state === 'waking') say('info', 'Waking', cause)
  else if (state === 'probing') say('info', 'Testing', cause)
  else if (state === 'registering') say('info', 'Starting', cause)
  else if (state === 'sleeping')
    say('info', 'Asleep', cause || 'The server receives requests again after it wakes.')
  for (const { kind, severity, text } of seen) {
    // The notice about the quarantine already gives the same numbers.
    const isShownByState =
      state === 'quarantined' && (kind === 'squashed_scores' || kind === 'drift')
    if (!isShownByState) say(severity, MONITOR_WORDS[kind].name, text)
  }
  if (
    selfTest?.overridden &&
    state !== 'quarantined' &&
    !seen.some((m) => m.kind === 'squashed_scores')
  )
    say('warning', 'Trusted anyway', selfTest.detail)
  for (const warning of server.warnings) say('warning', 'Warning', sentence(warning))
  return notes.sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))
}

/** The meaning of the verdict that keeps a server quarantined, or empty if the cause of the state says more. */
function whyKeptOut({ selfTest, stateCause }: ServerDto): string {
  if (selfTest === null || !stateCause?.includes('self-test')) return ''
  return selfTest.verdict === 'failed' || selfTest.verdict === 'differs'
    ? ''
    : VERDICT_MEANING[selfTest.verdict]
}
