import type { ServerMonitorDto } from '../../server/wire/server-detail.ts'
import type { ServerDto } from '../../server/wire/servers.ts'
import { plural } from '../format/numbers.ts'
import { sentence } from '../format/text.ts'
import { MONITOR_WORDS, VERDICT_MEANING } from './server-words.ts'

/** One thing to know about a server at this moment. */
export interface ServerNote {
  key: string
  level: 'error' | 'warning' | 'info'
  title: string
  text: string
}

const LEVELS: readonly ServerNote['level'][] = ['error', 'warning', 'info']

/** What there is to know about a server, the gravest first; nothing of one that is ready and well. */
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
  if (state === 'unreachable') say('error', 'Unreachable', cause || 'It does not answer.')
  else if (state === 'dead') say('error', 'Dead', `${cause} Asked again once a minute.`.trim())
  else if (state === 'distrusted') say('error', 'Kept out', whyKeptOut(server) || cause)
  else if (state === 'draining')
    say(
      'warning',
      'Draining',
      `${inFlight === 0 ? 'Nothing in flight any more' : `${plural(inFlight, 'call')} in flight to finish`}. ${cause}`.trim(),
    )
  else if (state === 'waking') say('info', 'Waking', cause)
  else if (state === 'probing') say('info', 'Being tested', cause)
  else if (state === 'registering') say('info', 'Starting', cause)
  else if (state === 'sleeping')
    say('info', 'Asleep', cause || 'It takes calls again when it is woken.')
  for (const { kind, severity, text } of seen) {
    // The state says the same with the same numbers.
    const told = state === 'distrusted' && (kind === 'squashed_scores' || kind === 'drift')
    if (!told) say(severity, MONITOR_WORDS[kind].name, text)
  }
  if (
    selfTest?.overridden &&
    state !== 'distrusted' &&
    !seen.some((m) => m.kind === 'squashed_scores')
  )
    say('warning', 'Used all the same', selfTest.detail)
  for (const warning of server.warnings) say('warning', 'Noticed', sentence(warning))
  return notes.sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level))
}

/** What the verdict means, where that says more than the numbers it was made of; they stand in the self-test. */
function whyKeptOut({ selfTest, stateCause }: ServerDto): string {
  if (selfTest === null || !stateCause?.includes('self-test')) return ''
  return selfTest.verdict === 'failed' || selfTest.verdict === 'differs'
    ? ''
    : VERDICT_MEANING[selfTest.verdict]
}
