import type { Attention } from '../../server/contract/pages.ts'
import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { MONITOR_WORDS, serverHref } from '../servers/server-words.ts'

/**
 * Merges the attention items of the service with the findings of server monitors, errors first. A server is listed
 * once.
 */
export function prepareAttention(
  serviceItems: readonly Attention[],
  servers: readonly ServerDto[],
  monitors: readonly ServerMonitorDto[],
): Attention[] {
  const list: Attention[] = serviceItems.map((each) => {
    if (each.href !== '/servers') return { ...each }
    // If the title of an item names a server, the item links to that server instead of the list of servers.
    const words = each.title.split(/\s+/)
    const server = servers.find(({ name }) => words.includes(name))
    return { ...each, ...(server && { href: serverHref(server) }) }
  })
  for (const { serverId, serverName, kind, severity, text } of monitors) {
    const server = servers.find(({ id }) => id === serverId)
    const isDuplicate =
      server?.state === 'quarantined' && (kind === 'squashed_scores' || kind === 'drift')
    if (isDuplicate) continue
    const name = MONITOR_WORDS[kind].name.toLowerCase()
    const href = serverHref({ id: serverId, name: serverName })
    const listed = list.find((each) => each.href === href)
    if (listed !== undefined) {
      if (severity === 'error') listed.level = 'error'
      listed.detail = `${listed.detail} Also: ${name}.`.trim()
    } else list.push({ level: severity, title: `${serverName}: ${name}`, detail: text, href })
  }
  return list.sort((a, b) => Number(a.level !== 'error') - Number(b.level !== 'error'))
}
