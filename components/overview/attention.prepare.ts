import type { Attention } from '../../server/wire/pages.ts'
import type { ServerMonitorDto } from '../../server/wire/server-detail.ts'
import type { ServerDto } from '../../server/wire/servers.ts'
import { MONITOR_WORDS, serverHref } from '../servers/server-words.ts'

/**
 * What needs attention: what the service itself says and what the monitors see; errors first. A server that is kept out
 * for its scores is one line, not two.
 */
export function prepareAttention(
  said: readonly Attention[],
  servers: readonly ServerDto[],
  monitors: readonly ServerMonitorDto[],
): Attention[] {
  const list: Attention[] = said.map((each) => {
    if (each.href !== '/servers') return each
    // The service leads to all servers; to the one it names is a step less.
    const words = each.title.split(/\s+/)
    const server = servers.find(({ name }) => words.includes(name))
    return server ? { ...each, href: serverHref(server) } : each
  })
  for (const { serverId, serverName, kind, severity, text } of monitors) {
    const server = servers.find(({ id }) => id === serverId)
    const told = server?.state === 'distrusted' && (kind === 'squashed_scores' || kind === 'drift')
    if (told) continue
    list.push({
      level: severity,
      title: `${serverName}: ${MONITOR_WORDS[kind].name.toLowerCase()}`,
      detail: text,
      href: serverHref({ id: serverId, name: serverName }),
    })
  }
  return list.sort((a, b) => Number(a.level !== 'error') - Number(b.level !== 'error'))
}
