'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, LockOpen, Pencil, Plus, RefreshCw, ShieldCheck, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { ApiKeyDto, KeysDto } from '../../server/contract/access.ts'
import { describeFailure, failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { dateTime } from '../format/time.ts'
import { useMay, useMayRead } from '../session/use-may.ts'
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
import { KeyLimits } from './key-limits.tsx'
import { LoginSessions } from './login-sessions.tsx'
import { ROLE_WORDS } from './role-words.ts'
import { RotateKeySheet } from './rotate-key-sheet.tsx'

export function AccessView({
  create,
  onCreate,
}: {
  create: boolean
  onCreate(open: boolean): void
}) {
  const trpc = useTRPC()
  const refused = useMayRead('admin')
  const mayNotChange = useMay('admin')
  const keys = useQuery(
    trpc.keys.list.queryOptions(undefined, {
      enabled: refused === null,
      // The service updates last-used times once a minute.
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
                <Button
                  small
                  variant="primary"
                  refused={mayNotChange}
                  onClick={() => onCreate(true)}
                >
                  <Plus size={14} aria-hidden />
                  Create key
                </Button>
              }
              className="border-t"
            >
              {data.keys.length === 0 && data.configured.length === 0 ? (
                <Empty icon={KeyRound} title="No keys yet">
                  A key has a name, which the audit log records, and a role. A viewer reads, a
                  trainer also submits and annotates, and an admin also changes servers, keys and
                  limits.
                </Empty>
              ) : (
                <KeyTable keys={data} />
              )}
            </Section>
          </>
        )}
      </QueryView>
      <LoginSessions />
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

function Decision({ keys }: { keys: KeysDto }) {
  const [openDialog, setOpenDialog] = useState<'on' | 'off' | null>(null)
  const refused = useMay('admin')
  const Icon = keys.requiresKey ? ShieldCheck : LockOpen
  const configured = keys.configured.length
  return (
    <div className="flex flex-wrap items-start gap-x-4 gap-y-3 px-5 py-4">
      <Icon
        size={18}
        className={`mt-0.5 shrink-0 ${keys.requiresKey ? 'text-ok' : 'text-ink-3'}`}
        aria-hidden
      />
      <div className="max-w-[640px] min-w-0 flex-1 basis-64">
        <p className="font-medium">
          {keys.requiresKey ? 'API keys required' : 'API keys not required'}
        </p>
        <p className="mt-0.5 text-ink-2">
          {configured > 0
            ? `REWARDOPS_API_KEYS contains ${plural(configured, 'key')}. Change them in the environment of the service. Keys created here also work.`
            : keys.requiresKey
              ? 'If no admin key is left, start the service with REWARDOPS_API_KEYS to regain access.'
              : 'The service listens only on this machine. Processes of its own user and of root have full access. A request that sends a key gets the name and role of the key. Creating a key does not restrict access.'}
        </p>
      </div>
      {configured === 0 && keys.loopbackOnly && (
        <Button
          small
          className="ml-auto"
          refused={refused}
          onClick={() => setOpenDialog(keys.requiresKey ? 'off' : 'on')}
        >
          {keys.requiresKey ? 'Stop requiring API keys…' : 'Require API keys…'}
        </Button>
      )}
      <RequireSheet open={openDialog === 'on'} onClose={() => setOpenDialog(null)} />
      <NoLongerRequire open={openDialog === 'off'} onClose={() => setOpenDialog(null)} />
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
    <Sheet open={open} onClose={onClose} title="Require API keys">
      <SheetForm
        action="Require API keys"
        busy={require.isPending}
        onSubmit={submit}
        onClose={onClose}
      >
        <p className="text-ink-2">
          The service then immediately refuses every request without a key: from trainers, scripts,
          scrapers, and other browsers on this machine. This browser continues with the key below.
        </p>
        <TextField
          label="Admin key without expiry"
          type="password"
          mono
          autoFocus
          value={key}
          onChange={(event) => {
            setKey(event.target.value)
            require.reset()
          }}
          error={failure}
          hint="Confirms that you have a working admin key."
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
      title="Stop requiring API keys?"
      action="Stop requiring API keys"
      keep="Keep requiring keys"
      busy={require.isPending}
      error={require.error && <FailureView compact error={require.error} />}
      onConfirm={() => require.mutate({ required: false })}
    >
      Processes of the service’s own user and of root then have full access without a key. Existing
      keys are kept and still work.
    </Confirm>
  )
}

function KeyTable({ keys }: { keys: KeysDto }) {
  const refused = useMay('admin')
  const [renaming, setRenaming] = useState<ApiKeyDto | null>(null)
  const [rotating, setRotating] = useState<ApiKeyDto | null>(null)
  const [revoking, setRevoking] = useState<ApiKeyDto | null>(null)
  return (
    <>
      <Scroll label="Keys">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Name',
              'Role',
              {
                start: 'Limits',
                title: 'Access and run prefix, if the key permits less than its role',
              },
              'Key',
              'State',
              'Last used',
              'Expires',
              'Created',
              { hidden: 'Actions' },
            ]}
          />
          <tbody>
            {keys.configured.map(({ name, role }) => (
              <tr key={name}>
                <td className="font-medium">{name}</td>
                <td title={ROLE_WORDS[role]}>{capitalized(role)}</td>
                <td className="text-ink-3">None</td>
                <td className="text-ink-3">From REWARDOPS_API_KEYS</td>
                <td>
                  <KeyState state="active" />
                </td>
                <td className="text-ink-3">Not recorded</td>
                <td className="text-ink-3">Never</td>
                <td className="text-ink-3">At start-up</td>
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
                <td title={ROLE_WORDS[key.role]}>{capitalized(key.role)}</td>
                <td>
                  <KeyLimits of={key} />
                </td>
                <td>
                  <span className="font-mono text-xs">{key.prefix}…</span>
                  {key.previousUntil !== null && (
                    <span
                      className="text-ink-3"
                      title={`The previous key is valid until ${dateTime(Date.parse(key.previousUntil))}`}
                    >
                      {' '}
                      and previous
                    </span>
                  )}
                </td>
                <td>
                  <KeyState state={key.state} />
                </td>
                <td>{key.lastUsedAt === null ? 'Never' : <Ago at={key.lastUsedAt} />}</td>
                <td className="num">
                  {key.expiresAt === null ? 'Never' : dateTime(Date.parse(key.expiresAt))}
                </td>
                <td>
                  <Ago at={key.createdAt} /> by {key.createdBy}
                </td>
                <td className="end">
                  {key.state !== 'revoked' && (
                    <ActionMenu
                      label={`Actions for ${key.name}`}
                      actions={[
                        {
                          label: 'Rename…',
                          icon: <Pencil size={14} aria-hidden />,
                          refused,
                          onSelect: () => setRenaming(key),
                        },
                        {
                          label: 'Rotate…',
                          icon: <RefreshCw size={14} aria-hidden />,
                          refused,
                          onSelect: () => setRotating(key),
                        },
                        {
                          label: 'Revoke…',
                          icon: <Trash2 size={14} aria-hidden />,
                          danger: true,
                          apart: true,
                          refused,
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
      {keys.hasMore && (
        <p className="px-5 py-3 text-xs text-ink-3">
          Only 1,000 keys are listed. The rest are already revoked.
        </p>
      )}
      {renaming && (
        <RenameSheet key={renaming.id} of={renaming} onClose={() => setRenaming(null)} />
      )}
      {rotating && (
        <RotateKeySheet key={rotating.id} of={rotating} onClose={() => setRotating(null)} />
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
      {capitalized(state)}
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
          hint="Existing audit entries keep the old name."
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
      action="Revoke key"
      busy={revoke.isPending}
      error={revoke.error && <FailureView compact error={revoke.error} />}
      onConfirm={() => revoke.mutate({ id: of.id })}
    >
      Requests with {of.prefix}… are refused immediately, and open pages that use this key require
      another one. Existing scores are kept. This cannot be undone.
    </Confirm>
  )
}
