import { describe, expect, test } from 'vitest'
import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { serverNotes } from './server-notes.prepare.ts'

const READY = {
  ...{ id: 's1', name: 'rm-1', state: 'ready', stateCause: 'scores are raw', selfTest: null },
  ...{ warnings: [] as string[], awakeUntil: null },
} as ServerDto
const monitor = (over: Partial<ServerMonitorDto>): ServerMonitorDto => ({
  ...{ serverId: 's1', serverName: 'rm-1', model: 'm', kind: 'black_hole' },
  ...{ severity: 'error', text: 'sees it' },
  ...over,
})

describe('server notices', () => {
  test('are empty for a healthy server, without other servers’ findings', () => {
    expect(serverNotes(READY, [monitor({ serverId: 's2' })])).toEqual([])
  })

  test('list the most severe first', () => {
    const notes = serverNotes({ ...READY, warnings: ['old version'] }, [monitor({})])
    expect(notes.map(({ level, text }) => [level, text])).toEqual([
      ['error', 'sees it'],
      ['warning', 'Old version.'],
    ])
  })

  test('list a quarantined server once, without its monitor', () => {
    const server: ServerDto = { ...READY, state: 'quarantined', stateCause: 'self-test squashed' }
    const notes = serverNotes(server, [monitor({ kind: 'squashed_scores' })])
    expect(notes.map((note) => note.title)).toEqual(['Quarantined'])
  })

  test('show the requests left while draining', () => {
    const notes = (inFlight: number) =>
      serverNotes({ ...READY, state: 'draining', stateCause: 'drain requested', inFlight }, [])
    expect(notes(3)[0]?.text).toBe('3 requests in flight. Drain requested.')
    expect(notes(0)[0]).toMatchObject({
      title: 'Drained',
      text: 'No requests in flight. Drain requested.',
    })
  })
})
