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
import { isOverridable, isTrusted } from '../../server/wire/self-test-verdict.ts'
import type { ServerDto, ServerState } from '../../server/wire/servers.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import type { MenuAction } from '../ui/action-menu.tsx'
import { IconButton } from '../ui/button.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Choices, Select } from '../ui/field.tsx'
import { VERDICT_MEANING } from './server-words.ts'

/** What is asked about before it is done. */
type Question = 'drain' | 'sleep' | 'wake' | 'trust' | 'remove'

// What a question's answer is seen by: from then on the page shows how far it is, and the window only hides it.
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

/** What can be done to a server: a menu, the windows that ask first, and the refusal of what was tried last. */
export interface ServerActions {
  menu: MenuAction[]
  /** To be put on the page once. */
  windows: ReactNode
  /** Why something was refused, and a way to put that away. */
  refusal: ReactNode
  /** Asks the server who it is and looks at its scores. */
  probe(): void
  probing: boolean
  /** Why who looks may do none of it; null: they may. */
  refused: string | null
  ask(question: Question): void
}

/** `onEdit` opens its form, `onRemoved` is called when it is gone. */
export function useServerActions(
  server: ServerDto,
  { onEdit, onRemoved }: { onEdit(): void; onRemoved?: () => void },
): ServerActions {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const [asking, ask] = useState<Question | null>(null)
  const [level, setLevel] = useState<'1' | '2'>('1')
  const [awakeForMs, setAwakeForMs] = useState<number>(AWAKE_FOR[0][0])
  const ref = { id: server.id }
  const read = () => void queryClient.invalidateQueries(trpc.servers.pathFilter())
  // After a refusal nothing is read again: a row that is gone would take the reason along.
  const done = {
    onSuccess: () => {
      ask(null)
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
        ask(null)
        onRemoved?.()
        read()
      },
    }),
  )
  const asked = { drain, sleep, wake, trust, remove }
  const pending = asking !== null && asked[asking].isPending
  useEffect(() => {
    if (asking !== null && pending && BEGUN[asking]?.includes(server.state)) ask(null)
  }, [asking, pending, server.state])

  const open = (question: Question) => {
    asked[question].reset()
    ask(question)
  }
  const failed = [
    probe,
    resume,
    ...Object.entries(asked).flatMap(([question, mutation]) =>
      question === asking ? [] : [mutation],
    ),
  ].find((mutation) => mutation.error !== null)

  const { name, model, state, selfTest } = server
  const untrusted =
    selfTest !== null && !isTrusted(selfTest.verdict) && isOverridable(selfTest.verdict)
  const rests = state === 'sleeping' || state === 'waking'
  const menu: MenuAction[] = [
    {
      label: probe.isPending ? 'Asking…' : 'Ask it now',
      icon: <RefreshCw size={14} aria-hidden />,
      disabled: probe.isPending || state === 'waking' || state === 'draining',
      onSelect: () => probe.mutate(ref),
    },
    { label: 'Edit…', icon: <Pencil size={14} aria-hidden />, onSelect: onEdit },
    ...(untrusted
      ? [
          selfTest.overridden
            ? {
                label: 'Trust its self-test again',
                icon: <ShieldCheck size={14} aria-hidden />,
                onSelect: () => trust.mutate({ ...ref, selfTestOverride: false }),
              }
            : {
                label: 'Use it all the same…',
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
            disabled: sleep.isPending || !['ready', 'distrusted', 'draining'].includes(state),
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
    open: asking === question,
    busy: asked[question].isPending,
    error: asked[question].error && <FailureView compact error={asked[question].error} />,
    onClose: () => ask(null),
  })
  const windows = (
    <>
      <Confirm
        {...windowOf('drain')}
        title={`Drain ${name}?`}
        action="Drain it"
        keep="Not now"
        danger={false}
        onConfirm={() => drain.mutate(ref)}
      >
        It finishes the {plural(server.inFlight, 'call')} it has and is given nothing new until it
        is resumed. Its share goes to the other servers of {model}.
      </Confirm>
      <Confirm
        {...windowOf('sleep')}
        title={`Put ${name} to sleep?`}
        action="Put it to sleep"
        keep="Not now"
        danger={false}
        onConfirm={() => sleep.mutate({ ...ref, level: level === '1' ? 1 : 2 })}
      >
        <p className="mb-3">
          It finishes the {plural(server.inFlight, 'call')} it has, then gives its GPU memory back.
          It is woken here, by a batch that asks for it, or by a call of its model when all of its
          servers sleep. If it is not idle within a minute it stays awake.
        </p>
        <Choices
          legend="How deep"
          name="level"
          value={level}
          onChange={setLevel}
          options={[
            { value: '1', label: 'Keep the weights in memory', about: 'Awake again in seconds.' },
            {
              value: '2',
              label: 'Drop the weights',
              about: 'Frees the most; they are read again when it wakes.',
            },
          ]}
        />
      </Confirm>
      <Confirm
        {...windowOf('wake')}
        title={`Wake ${name}?`}
        action="Wake it"
        keep="Let it sleep"
        danger={false}
        onConfirm={() => wake.mutate({ ...ref, awakeForMs })}
      >
        <p className="mb-3">
          It takes its GPU memory back, its scores are looked at, and then it takes calls. Batches
          that need it keep it awake for longer.
        </p>
        <Select
          label="Awake for at least"
          value={awakeForMs}
          onChange={(event) => setAwakeForMs(Number(event.target.value))}
        >
          {AWAKE_FOR.map(([ms, label]) => (
            <option key={ms} value={ms}>
              {label}
            </option>
          ))}
        </Select>
      </Confirm>
      <Confirm
        {...windowOf('trust')}
        title={`Use ${name} all the same?`}
        action="Use it all the same"
        onConfirm={() => trust.mutate({ ...ref, selfTestOverride: true })}
      >
        {selfTest && <p className="mb-2">{VERDICT_MEANING[selfTest.verdict]}</p>}
        Its scores go into training as they are. The verdict stays beside its name, and this can be
        taken back.
      </Confirm>
      <Confirm
        {...windowOf('remove')}
        title={`Remove ${name}?`}
        action="Remove it"
        onConfirm={() => remove.mutate(ref)}
      >
        What is in flight finishes, and no more calls go to {server.url}. What it scored stays,
        under its name.{server.launched && ' This service started its process, and ends it.'} To use
        it again, register it again.
      </Confirm>
    </>
  )
  return {
    menu: menu.map((action) => ({ ...action, refused })),
    windows,
    refusal: failed && (
      <div className="flex items-start">
        <FailureView compact error={failed.error} />
        <IconButton label="Put this away" className="mt-1 ml-auto" onClick={() => failed.reset()}>
          <X size={14} aria-hidden />
        </IconButton>
      </div>
    ),
    probe: () => probe.mutate(ref),
    probing: probe.isPending,
    refused,
    ask: open,
  }
}
