import type { Attention } from '../../server/wire/pages.ts'
import type { ServerMonitorDto } from '../../server/wire/server-detail.ts'
import type { ServerDto } from '../../server/wire/servers.ts'
import { MONITOR_WORDS, serverHref } from '../servers/server-words.ts'

/**
 * What needs attention: what the service itself says, the servers that are kept out or dead, and what the monitors see;
 * errors first. What the service says already is not said again, and a server that is kept out for its scores is one
 * line, not two.
 */
export function prepareAttention(
  said: readonly Attention[],
  servers: readonly ServerDto[],
  monitors: readonly ServerMonitorDto[],
): Attention[] {
  const list: Attention[] = said.map((each) => {
    // The service names the page of all servers; the server itself is one step less.
    const server = servers.find(({ name }) => each.title.startsWith(`${name} `))
    return server && each.href === '/servers' ? { ...each, href: serverHref(server) } : each
  })
  const add = (item: Attention) => {
    if (!list.some((each) => each.title === item.title)) list.push(item)
  }
  for (const server of servers) {
    const href = serverHref(server)
    const detail = server.stateCause ?? ''
    if (server.state === 'dead') {
      add({ level: 'error', title: `${server.name} is dead`, detail, href })
    } else if (server.state === 'distrusted') {
      add({ level: 'error', title: `${server.name} is kept out`, detail, href })
    }
  }
  for (const { serverId, serverName, kind, severity, text } of monitors) {
    const server = servers.find(({ id }) => id === serverId)
    const told = server?.state === 'distrusted' && (kind === 'squashed_scores' || kind === 'drift')
    if (told) continue
    add({
      level: severity,
      title: `${serverName}: ${MONITOR_WORDS[kind].name.toLowerCase()}`,
      detail: text,
      href: serverHref({ id: serverId, name: serverName }),
    })
  }
  return list.sort((a, b) => Number(a.level !== 'error') - Number(b.level !== 'error'))
}
