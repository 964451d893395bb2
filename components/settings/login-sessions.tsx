'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { LogOut } from 'lucide-react'
import { useState } from 'react'
import type { LoginSessionDto } from '../../server/contract/access.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { dateTime } from '../format/time.ts'
import { useMay } from '../session/use-may.ts'
import { Ago } from '../ui/ago.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { browserName } from './browser-name.ts'
import { ROLE_WORDS } from './role-words.ts'

export function LoginSessions() {
  const trpc = useTRPC()
  const sessions = useQuery(
    // The service updates last-used times once a minute.
    trpc.sessions.list.queryOptions(undefined, { refetchInterval: 30_000 }),
  )
  const refused = useMay('admin')
  const others = sessions.data?.filter(({ isOwn }) => !isOwn).length ?? 0
  const [endingAll, setEndingAll] = useState(false)
  return (
    <Section
      title="Sessions"
      note={sessions.data && `${plural(sessions.data.length, 'browser')} signed in`}
      actions={
        others > 0 && (
          <Button small refused={refused} onClick={() => setEndingAll(true)}>
            End other sessions…
          </Button>
        )
      }
      className="border-t"
    >
      <QueryView query={sessions} skeleton={<TableSkeleton columns={6} rows={3} />}>
        {(data) =>
          data.length === 0 ? (
            <Empty icon={LogOut} title="No sessions">
              A session begins when a browser signs in with a key. Scripts and trainers send their
              key with each call and have no session.
            </Empty>
          ) : (
            <SessionTable sessions={data} />
          )
        }
      </QueryView>
      <EndOthers open={endingAll} count={others} onClose={() => setEndingAll(false)} />
    </Section>
  )
}

function SessionTable({ sessions }: { sessions: readonly LoginSessionDto[] }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const end = useMutation(
    trpc.sessions.end.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.sessions.pathFilter()),
    }),
  )
  return (
    <>
      {end.error && <FailureView compact error={end.error} />}
      <Scroll label="Sessions">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              { start: 'Key', title: 'The key with which the browser signed in' },
              'Role',
              'Browser',
              { start: 'IP address', title: 'The browser’s IP address at sign-in' },
              'Signed in',
              'Last used',
              {
                start: 'Expires',
                title: 'The session ends at this time unless it is used before then',
              },
              { hidden: 'Actions' },
            ]}
          />
          <tbody>
            {sessions.map((session) => (
              <tr key={session.id} data-session={session.id}>
                <td className="font-medium">{session.name}</td>
                <td title={ROLE_WORDS[session.role]}>{capitalized(session.role)}</td>
                <td title={session.userAgent}>
                  {browserName(session.userAgent)}
                  {session.isOwn && <span className="text-ink-3"> (this browser)</span>}
                </td>
                <td className="font-mono text-xs">{session.address}</td>
                <td>
                  <Ago at={session.createdAt} />
                </td>
                <td>
                  <Ago at={session.lastUsedAt} />
                </td>
                <td className="num">{dateTime(Date.parse(session.expiresAt))}</td>
                <td className="end">
                  <IconButton
                    label={`End session of ${session.name}`}
                    refused={refused}
                    disabled={end.isPending}
                    onClick={() => end.mutate({ id: session.id })}
                  >
                    <LogOut size={14} aria-hidden />
                  </IconButton>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  )
}

function EndOthers({ open, count, onClose }: { open: boolean; count: number; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const end = useMutation(
    trpc.sessions.endOthers.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.sessions.pathFilter())
        onClose()
      },
    }),
  )
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title="End other sessions?"
      action="End other sessions"
      keep="Keep sessions"
      busy={end.isPending}
      error={end.error && <FailureView compact error={end.error} />}
      onConfirm={() => end.mutate({})}
    >
      Ends {plural(count, 'session')}. {count === 1 ? 'Its' : 'Their'} open pages stop within 2
      seconds. The keys stay valid. Revoke keys that are no longer safe.
    </Confirm>
  )
}
