'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, LockOpen, Pencil, Plus, ShieldCheck, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { ApiKeyDto, KeysDto } from '../../server/wire/access.ts'
import { describeFailure, failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { dateTime } from '../format/time.ts'
import { useMay } from '../session/use-may.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Confirm, Sheet } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { TextField } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { AdminsOnly } from './admins-only.tsx'
import { CreateKeySheet } from './create-key-sheet.tsx'
import { ROLE_WORDS } from './role-words.ts'

/** How access is decided, and the keys. */
export function AccessView({
  create,
  onCreate,
}: {
  create: boolean
  onCreate(open: boolean): void
}) {
  const trpc = useTRPC()
  const refused = useMay('admin')
  const keys = useQuery(
    trpc.keys.list.queryOptions(undefined, {
      enabled: refused === null,
      // When keys were used is written once a minute.
      refetchInterval: 30_000,
    }),
  )
  if (refused !== null) return <AdminsOnly what="Access" refused={refused} />
  return (
    <>
      <QueryView query={keys} skeleton={<TableSkeleton columns={6} rows={5} />}>
        {(data) => (
          <>
            <Decision keys={data} />
            <Section
              title="Keys"
              note={keysInWords(data)}
              actions={
                <Button small variant="primary" onClick={() => onCreate(true)}>
                  <Plus size={14} aria-hidden />
                  New key
                </Button>
              }
              className="border-t"
            >
              {data.keys.length === 0 && data.configured.length === 0 ? (
                <Empty icon={KeyRound} title="No key yet">
                  A key has a name, so that changes and use can be told apart, and a role: a viewer
                  reads, a trainer also submits and annotates, an admin also changes servers, keys
                  and limits.
                </Empty>
              ) : (
                <KeyTable keys={data} />
              )}
            </Section>
          </>
        )}
      </QueryView>
      <CreateKeySheet open={create} onClose={() => onCreate(false)} />
    </>
  )
}

function keysInWords({ keys, configured }: KeysDto): string {
  const active = keys.filter(({ state }) => state === 'active').length
  const parts = [`${active} active`]
  if (configured.length > 0) parts.push(`${configured.length} from the environment`)
  return parts.join(', ')
}

/** Whether a key is needed, why, and the way to change it. */
function Decision({ keys }: { keys: KeysDto }) {
  const [asking, setAsking] = useState<'on' | 'off' | null>(null)
  const Icon = keys.needsKey ? ShieldCheck : LockOpen
  const configured = keys.configured.length
  return (
    <div className="flex flex-wrap items-start gap-x-4 gap-y-3 px-5 py-4">
      <Icon
        size={18}
        className={`mt-0.5 shrink-0 ${keys.needsKey ? 'text-ok' : 'text-ink-3'}`}
        aria-hidden
      />
      <div className="max-w-[640px] min-w-0 flex-1 basis-64">
        <p className="font-medium">
          {keys.needsKey ? 'Every call needs a key' : 'No key is needed on this machine'}
        </p>
        <p className="mt-0.5 text-ink-2">
          {configured > 0
            ? `REWARDOPS_API_KEYS has ${plural(configured, 'key')}: they are admins, and are changed where the service is started. Keys made here work beside them.`
            : keys.needsKey
              ? 'Set here. Should no admin’s key be left, start the service with REWARDOPS_API_KEYS to come back in.'
              : 'The service listens on this machine only, and whoever is on it may do everything. A key made here counts with its name and role when it is shown; making one locks nobody out.'}
        </p>
      </div>
      {configured === 0 && keys.loopbackOnly && (
        <Button small className="ml-auto" onClick={() => setAsking(keys.needsKey ? 'off' : 'on')}>
          {keys.needsKey ? 'No longer need keys…' : 'Need a key…'}
        </Button>
      )}
      <RequireSheet open={asking === 'on'} onClose={() => setAsking(null)} />
      <NoLongerRequire open={asking === 'off'} onClose={() => setAsking(null)} />
    </div>
  )
}

function RequireSheet({ open, onClose }: { open: boolean; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [key, setKey] = useState('')
  const require = useMutation(
    trpc.keys.require.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries()
        setKey('')
        onClose()
      },
    }),
  )
  const failure = require.error && failureText(require.error)
  const submit = () => {
    require.mutate({ required: true, key: key.trim() === '' ? null : key.trim() })
  }
  return (
    <Sheet open={open} onClose={onClose} title="Need a key">
      <SheetForm
        action="Need a key from now on"
        busy={require.isPending}
        onSubmit={submit}
        onClose={onClose}
      >
        <p className="text-ink-2">
          From then on every call without a key is refused: trainers, scripts, scrapers and the
          pages of everybody else on this machine, at once. This browser goes on with the key below.
        </p>
        <TextField
          label="An admin’s key without an end"
          type="password"
          mono
          autoFocus
          value={key}
          onChange={(event) => {
            setKey(event.target.value)
            require.reset()
          }}
          error={failure}
          hint="It proves that you have kept one: nobody is locked out."
        />
      </SheetForm>
    </Sheet>
  )
}

function NoLongerRequire({ open, onClose }: { open: boolean; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const require = useMutation(
    trpc.keys.require.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries()
        onClose()
      },
    }),
  )
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title="No longer need keys?"
      action="Need none"
      keep="Keep needing them"
      busy={require.isPending}
      error={require.error && <FailureView compact error={require.error} />}
      onConfirm={() => require.mutate({ required: false })}
    >
      Whoever is on this machine may then do everything without a key. Keys stay, and count when
      they are shown.
    </Confirm>
  )
}

function KeyTable({ keys }: { keys: KeysDto }) {
  const [renaming, setRenaming] = useState<ApiKeyDto | null>(null)
  const [revoking, setRevoking] = useState<ApiKeyDto | null>(null)
  return (
    <>
      <Scroll label="Keys">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Name',
              'Role',
              'Key',
              'State',
              'Last used',
              'Ends',
              'Made',
              { hidden: 'Actions' },
            ]}
          />
          <tbody>
            {keys.configured.map(({ name }) => (
              <tr key={name}>
                <td className="font-medium">{name}</td>
                <td title={ROLE_WORDS.admin}>admin</td>
                <td className="text-ink-3">from REWARDOPS_API_KEYS</td>
                <td>
                  <KeyState state="active" />
                </td>
                <td className="text-ink-3">not kept</td>
                <td className="text-ink-3">never</td>
                <td className="text-ink-3">at the start</td>
                <td />
              </tr>
            ))}
            {keys.keys.map((key) => (
              <tr
                key={key.id}
                data-key={key.name}
                className={key.state === 'active' ? '' : 'text-ink-3'}
              >
                <td className={key.state === 'active' ? 'font-medium' : ''}>{key.name}</td>
                <td title={ROLE_WORDS[key.role]}>{key.role}</td>
                <td className="font-mono text-xs">{key.prefix}…</td>
                <td>
                  <KeyState state={key.state} />
                </td>
                <td>{key.lastUsedAt === null ? 'never' : <Ago at={key.lastUsedAt} />}</td>
                <td className="num">
                  {key.expiresAt === null ? 'never' : dateTime(Date.parse(key.expiresAt))}
                </td>
                <td>
                  <Ago at={key.createdAt} /> by {key.createdBy}
                </td>
                <td className="end">
                  {key.state !== 'revoked' && (
                    <ActionMenu
                      label={`What to do with ${key.name}`}
                      actions={[
                        {
                          label: 'Rename…',
                          icon: <Pencil size={14} aria-hidden />,
                          onSelect: () => setRenaming(key),
                        },
                        {
                          label: 'Revoke…',
                          icon: <Trash2 size={14} aria-hidden />,
                          danger: true,
                          apart: true,
                          onSelect: () => setRevoking(key),
                        },
                      ]}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {keys.more && (
        <p className="px-5 py-3 text-xs text-ink-3">The newest 500 keys. Older ones are revoked.</p>
      )}
      {renaming && (
        <RenameSheet key={renaming.id} of={renaming} onClose={() => setRenaming(null)} />
      )}
      {revoking && <Revoke key={revoking.id} of={revoking} onClose={() => setRevoking(null)} />}
    </>
  )
}

function KeyState({ state }: { state: ApiKeyDto['state'] }) {
  const tone = { active: 'bg-ok', expired: 'bg-warn', revoked: 'bg-ink-3' }[state]
  return (
    <span className="inline-flex items-center gap-1.5">
      <span className={`size-1.5 rounded-full ${tone}`} aria-hidden />
      {state}
    </span>
  )
}

function RenameSheet({ of, onClose }: { of: ApiKeyDto; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [name, setName] = useState(of.name)
  const rename = useMutation(
    trpc.keys.rename.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.keys.pathFilter())
        onClose()
      },
    }),
  )
  const failure = rename.error && describeFailure(rename.error)
  return (
    <Sheet open onClose={onClose} title={`Rename ${of.name}`}>
      <SheetForm
        action="Rename"
        busy={rename.isPending}
        onSubmit={() => rename.mutate({ id: of.id, name })}
        onClose={onClose}
      >
        <TextField
          label="Name"
          autoFocus
          value={name}
          onChange={(event) => {
            setName(event.target.value)
            rename.reset()
          }}
          error={failure ? failure.message : undefined}
          hint="What is on the audit list already keeps the old one."
        />
      </SheetForm>
    </Sheet>
  )
}

function Revoke({ of, onClose }: { of: ApiKeyDto; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const revoke = useMutation(
    trpc.keys.revoke.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.keys.pathFilter())
        onClose()
      },
    }),
  )
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Revoke ${of.name}?`}
      action="Revoke it"
      busy={revoke.isPending}
      error={revoke.error && <FailureView compact error={revoke.error} />}
      onConfirm={() => revoke.mutate({ id: of.id })}
    >
      Whoever shows {of.prefix}… is refused from now on, and pages that were opened with it ask for
      another. What was scored stays. This cannot be taken back.
    </Confirm>
  )
}
