import type { Attention } from '../../server/contract/pages.ts'
import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { MONITOR_WORDS, serverHref } from '../servers/server-words.ts'

/**
 * Merges the attention items of the service with the findings of server monitors, errors first. A quarantined server
 * is listed once.
 */
export function prepareAttention(
  serviceItems: readonly Attention[],
  servers: readonly ServerDto[],
  monitors: readonly ServerMonitorDto[],
): Attention[] {
  const list: Attention[] = serviceItems.map((each) => {
    if (each.href !== '/servers') return each
    // The service links to all servers; the page links to the server that the title names.
    const words = each.title.split(/\s+/)
    const server = servers.find(({ name }) => words.includes(name))
    return server ? { ...each, href: serverHref(server) } : each
  })
  for (const { serverId, serverName, kind, severity, text } of monitors) {
    const server = servers.find(({ id }) => id === serverId)
    const isDuplicate =
      server?.state === 'quarantined' && (kind === 'squashed_scores' || kind === 'drift')
    if (isDuplicate) continue
    list.push({
      level: severity,
      title: `${serverName}: ${MONITOR_WORDS[kind].name.toLowerCase()}`,
      detail: text,
      href: serverHref({ id: serverId, name: serverName }),
    })
  }
  return list.sort((a, b) => Number(a.level !== 'error') - Number(b.level !== 'error'))
}
