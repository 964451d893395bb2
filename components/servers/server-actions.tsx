'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import {
  CirclePlay,
  Hourglass,
  MoonStar,
  Pencil,
  RefreshCw,
  ShieldCheck,
  ShieldOff,
  Sunrise,
  Trash2,
  X,
} from 'lucide-react'
import { type ReactNode, useEffect, useState } from 'react'
import { isOverridable, isTrusted } from '../../server/contract/self-test-verdict.ts'
import type { ServerDto, ServerState } from '../../server/contract/servers.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import type { MenuAction } from '../ui/action-menu.tsx'
import { IconButton } from '../ui/button.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Choices } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import { VERDICT_MEANING } from './server-words.ts'

type Question = 'drain' | 'sleep' | 'wake' | 'trust' | 'remove'

// An action has begun once the server is in one of these states. Its dialog then closes.
const BEGUN: Partial<Record<Question, readonly ServerState[]>> = {
  sleep: ['draining', 'sleeping'],
  wake: ['waking', 'probing'],
}

const AWAKE_FOR = [
  [300_000, '5 minutes'],
  [1_800_000, '30 minutes'],
  [7_200_000, '2 hours'],
  [28_800_000, '8 hours'],
] as const

export interface ServerActions {
  menu: MenuAction[]
  /** The dialogs. A page must render them exactly once. */
  windows: ReactNode
  refusal: ReactNode
  probe(): void
  probing: boolean
  refused: string | null
  confirm(question: Question): void
}

export function useServerActions(
  server: ServerDto,
  { onEdit, onRemoved }: { onEdit(): void; onRemoved?: () => void },
): ServerActions {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const [openQuestion, setOpenQuestion] = useState<Question | null>(null)
  const [level, setLevel] = useState<'1' | '2'>('1')
  const [awakeForMs, setAwakeForMs] = useState<number>(AWAKE_FOR[0][0])
  const ref = { id: server.id }
  const read = () => void queryClient.invalidateQueries(trpc.servers.pathFilter())
  // An error triggers no refetch, because a refetch could remove the row, and with it the message.
  const done = {
    onSuccess: () => {
      setOpenQuestion(null)
      read()
    },
  }
  const probe = useMutation(trpc.servers.probe.mutationOptions({ onSuccess: read }))
  const resume = useMutation(trpc.servers.resume.mutationOptions({ onSuccess: read }))
  const drain = useMutation(trpc.servers.drain.mutationOptions(done))
  const sleep = useMutation(trpc.servers.sleep.mutationOptions(done))
  const wake = useMutation(trpc.servers.wake.mutationOptions(done))
  const trust = useMutation(trpc.servers.update.mutationOptions(done))
  const remove = useMutation(
    trpc.servers.remove.mutationOptions({
      onSuccess: () => {
        setOpenQuestion(null)
        onRemoved?.()
        read()
      },
    }),
  )
  const mutations = { drain, sleep, wake, trust, remove }
  const pending = openQuestion !== null && mutations[openQuestion].isPending
  useEffect(() => {
    if (openQuestion !== null && pending && BEGUN[openQuestion]?.includes(server.state))
      setOpenQuestion(null)
  }, [openQuestion, pending, server.state])

  const open = (question: Question) => {
    mutations[question].reset()
    setOpenQuestion(question)
  }
  const failed = [
    probe,
    resume,
    ...Object.entries(mutations).flatMap(([question, mutation]) =>
      question === openQuestion ? [] : [mutation],
    ),
  ].find((mutation) => mutation.error !== null)

  const { name, model, state, selfTest } = server
  const untrusted =
    selfTest !== null && !isTrusted(selfTest.verdict) && isOverridable(selfTest.verdict)
  const rests = state === 'sleeping' || state === 'waking'
  const menu: MenuAction[] = [
    {
      label: probe.isPending ? 'Probing…' : 'Probe now',
      icon: <RefreshCw size={14} aria-hidden />,
      disabled: probe.isPending || state === 'waking' || state === 'draining',
      onSelect: () => probe.mutate(ref),
    },
    { label: 'Edit…', icon: <Pencil size={14} aria-hidden />, onSelect: onEdit },
    ...(untrusted
      ? [
          selfTest.overridden
            ? {
                label: 'Revoke trust',
                icon: <ShieldCheck size={14} aria-hidden />,
                onSelect: () => trust.mutate({ ...ref, selfTestOverride: false }),
              }
            : {
                label: 'Trust anyway…',
                icon: <ShieldOff size={14} aria-hidden />,
                onSelect: () => open('trust'),
              },
        ]
      : []),
    ...(state === 'draining'
      ? [
          {
            label: 'Resume',
            icon: <CirclePlay size={14} aria-hidden />,
            apart: true,
            disabled: resume.isPending,
            onSelect: () => resume.mutate(ref),
          },
        ]
      : rests
        ? []
        : [
            {
              label: 'Drain…',
              icon: <Hourglass size={14} aria-hidden />,
              apart: true,
              onSelect: () => open('drain'),
            },
          ]),
    ...(server.canSleep && !rests
      ? [
          {
            label: 'Put to sleep…',
            icon: <MoonStar size={14} aria-hidden />,
            disabled: sleep.isPending || !['ready', 'quarantined', 'draining'].includes(state),
            onSelect: () => open('sleep'),
          },
        ]
      : []),
    ...(rests
      ? [
          {
            label: 'Wake…',
            icon: <Sunrise size={14} aria-hidden />,
            apart: true,
            disabled: wake.isPending || state === 'waking',
            onSelect: () => open('wake'),
          },
        ]
      : []),
    {
      label: 'Remove…',
      icon: <Trash2 size={14} aria-hidden />,
      danger: true,
      apart: true,
      onSelect: () => open('remove'),
    },
  ]

  const windowOf = (question: Question) => ({
    open: openQuestion === question,
    busy: mutations[question].isPending,
    error: mutations[question].error && <FailureView compact error={mutations[question].error} />,
    onClose: () => setOpenQuestion(null),
  })
  const windows = (
    <>
      <Confirm
        {...windowOf('drain')}
        title={`Drain ${name}?`}
        action="Drain"
        keep="Cancel"
        danger={false}
        onConfirm={() => drain.mutate(ref)}
      >
        The server finishes the {plural(server.inFlight, 'request')} in flight and receives no new
        ones until it is resumed. The other servers of {model} take over its share.
      </Confirm>
      <Confirm
        {...windowOf('sleep')}
        title={`Put ${name} to sleep?`}
        action="Put to sleep"
        keep="Cancel"
        danger={false}
        onConfirm={() => sleep.mutate({ ...ref, level: level === '1' ? 1 : 2 })}
      >
        <p className="mb-3">
          The server finishes the {plural(server.inFlight, 'request')} in flight, then frees its GPU
          memory. It wakes when you select Wake, when a batch needs it, or when a request arrives
          while all servers of its model are asleep. If it is not idle within one minute, it stays
          awake.
        </p>
        <Choices
          legend="Sleep level"
          name="level"
          value={level}
          onChange={setLevel}
          options={[
            {
              value: '1',
              label: 'Level 1: keep weights',
              about: 'Offloads the weights to CPU memory. Wakes in seconds.',
            },
            {
              value: '2',
              label: 'Level 2: discard weights',
              about: 'Frees the most memory. The weights are reloaded on wake-up.',
            },
          ]}
        />
      </Confirm>
      <Confirm
        {...windowOf('wake')}
        title={`Wake ${name}?`}
        action="Wake"
        keep="Cancel"
        danger={false}
        onConfirm={() => wake.mutate({ ...ref, awakeForMs })}
      >
        <p className="mb-3">
          The server allocates its GPU memory, runs the self-test, and then receives requests.
          Batches that need the server keep it awake longer.
        </p>
        <Select
          label="Minimum time awake"
          value={awakeForMs}
          options={AWAKE_FOR.map(([value, label]) => ({ value, label }))}
          onChange={setAwakeForMs}
        />
      </Confirm>
      <Confirm
        {...windowOf('trust')}
        title={`Trust ${name} anyway?`}
        action="Trust anyway"
        onConfirm={() => trust.mutate({ ...ref, selfTestOverride: true })}
      >
        {selfTest && <p className="mb-2">{VERDICT_MEANING[selfTest.verdict]}</p>}
        Batches then use its scores despite this verdict. The verdict stays visible, and you can
        undo this later.
      </Confirm>
      <Confirm
        {...windowOf('remove')}
        title={`Remove ${name}?`}
        action="Remove server"
        onConfirm={() => remove.mutate(ref)}
      >
        Requests in flight finish, and no new ones are sent to {server.url}. Existing scores are
        kept under its name.
        {server.launched && ' The service also stops the process that it launched.'}
      </Confirm>
    </>
  )
  return {
    menu: menu.map((action) => ({ ...action, refused })),
    windows,
    refusal: failed && (
      <div className="flex items-start">
        <FailureView compact error={failed.error} />
        <IconButton label="Dismiss" className="mt-1 ml-auto" onClick={() => failed.reset()}>
          <X size={14} aria-hidden />
        </IconButton>
      </div>
    ),
    probe: () => probe.mutate(ref),
    probing: probe.isPending,
    refused,
    confirm: open,
  }
}
