'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type RefObject, useState } from 'react'
import { ENGINE_NAMES, ENGINES } from '../../server/contract/engines.ts'
import { isOverridable } from '../../server/contract/self-test-verdict.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Choices, FieldAbout, TextField } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import { SheetFoot, SheetForm } from '../ui/sheet-form.tsx'
import { Probing } from './probing.tsx'
import {
  EMPTY_DRAFT,
  type FieldErrors,
  placeFailure,
  prepareRegister,
  type RegisterDraft,
} from './register-form.prepare.ts'
import { SelfTestFacts } from './self-test-facts.tsx'
import { ROUTE_WORDS } from './server-words.ts'
import { SettingFields } from './setting-fields.tsx'
import { TemplateField } from './template-field.tsx'

/** Registers a reward-model server. The service probes the server and tests its scores before it saves the server. */
export function RegisterSheet({
  open,
  finalFocus,
  onClose,
  onRegistered,
}: {
  open: boolean
  /** The element that has the focus after the sheet has closed. */
  finalFocus: RefObject<HTMLElement | null>
  onClose(): void
  onRegistered(server: ServerDto): void
}) {
  const [quarantined, setQuarantined] = useState<ServerDto | null>(null)
  const finish = (server: ServerDto) => {
    setQuarantined(null)
    onRegistered(server)
  }
  return (
    <Sheet
      open={open}
      finalFocus={finalFocus}
      onClose={() => (quarantined ? finish(quarantined) : onClose())}
      title="Register server"
    >
      {quarantined ? (
        <Verdict server={quarantined} onDone={finish} />
      ) : (
        <RegisterForm
          onClose={onClose}
          onRegistered={(server) =>
            server.state === 'quarantined' ? setQuarantined(server) : finish(server)
          }
        />
      )}
    </Sheet>
  )
}

function Verdict({ server, onDone }: { server: ServerDto; onDone(server: ServerDto): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const trust = useMutation(
    trpc.servers.update.mutationOptions({
      onSuccess: (changed) => {
        void queryClient.invalidateQueries(trpc.servers.pathFilter())
        onDone(changed)
      },
    }),
  )
  const consent = server.selfTest !== null && isOverridable(server.selfTest.verdict)
  return (
    <div className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <p className="text-md font-semibold">{server.name} is registered and quarantined</p>
        <SelfTestFacts test={server.selfTest} />
        <p className="text-ink-2">
          Fix the start-up options or the registration of the server, then probe it again. It
          becomes ready when the self-test passes.
          {consent &&
            ' If you trust it anyway, its scores are used in training, and the verdict stays visible.'}
        </p>
        {trust.error && <FailureView compact error={trust.error} />}
      </div>
      <SheetFoot>
        {consent && (
          <Button
            busy={trust.isPending}
            onClick={() => trust.mutate({ id: server.id, selfTestOverride: true })}
          >
            Trust anyway
          </Button>
        )}
        <Button variant="primary" onClick={() => onDone(server)}>
          Keep quarantined
        </Button>
      </SheetFoot>
    </div>
  )
}

function RegisterForm({
  onRegistered,
  onClose,
}: {
  onRegistered(server: ServerDto): void
  onClose(): void
}) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [draft, setDraft] = useState<RegisterDraft>(EMPTY_DRAFT)
  const [errors, setErrors] = useState<FieldErrors>({})
  const register = useMutation(
    trpc.servers.register.mutationOptions({
      onError: (error) => setErrors(placeFailure(describeFailure(error), 'register')),
      onSuccess: (server) => {
        void queryClient.invalidateQueries(trpc.servers.pathFilter())
        onRegistered(server)
      },
    }),
  )
  const change = (part: Partial<RegisterDraft>) => {
    setDraft({ ...draft, ...part })
    const left = { ...errors }
    for (const name of Object.keys(part)) delete left[name as keyof FieldErrors]
    setErrors(left)
  }
  const submit = () => {
    const prepared = prepareRegister(draft)
    if ('errors' in prepared) setErrors(prepared.errors)
    else {
      setErrors({})
      register.mutate(prepared.input)
    }
  }
  const text = (name: 'name' | 'url' | 'model' | 'label') => ({
    value: draft[name],
    error: errors[name],
    onChange: (event: { target: { value: string } }) => change({ [name]: event.target.value }),
  })
  return (
    <SheetForm
      onSubmit={submit}
      onClose={onClose}
      action="Register"
      busy={register.isPending}
      beside={register.isPending && <Probing address={draft.url.trim()} />}
    >
      <TextField
        label="URL"
        placeholder="http://10.0.0.5:8000"
        mono
        autoFocus
        hint="The root URL, without a path. Redirects are not followed."
        {...text('url')}
      />
      <TextField
        label="Name"
        placeholder="rm-1"
        hint="If a server with this name exists, it is updated."
        {...text('name')}
      />
      <Select
        label="Engine"
        value={draft.engine}
        error={errors.engine}
        options={[
          { value: 'auto', label: 'Auto-detect' },
          ...ENGINE_NAMES.map((value) => ({ value, label: ENGINES[value].label })),
        ]}
        onChange={(engine) => change({ engine })}
      />
      <div>
        <Choices
          legend="Type"
          name="kind"
          value={draft.kind}
          onChange={(kind) => change({ kind })}
          options={[
            {
              value: 'discriminative',
              label: 'Discriminative',
              about:
                'A reward model that returns scores. The self-test checks that the scores are raw.',
            },
            {
              value: 'generative',
              label: 'Generative',
              about: 'A judge, called through chat completions.',
            },
          ]}
        />
        <FieldAbout error={errors.kind} />
      </div>
      <TextField
        label="Model"
        placeholder="Auto-detect"
        hint="The model name that batches use. Servers of one model form a pool."
        {...text('model')}
      />
      {draft.kind === 'discriminative' && (
        <>
          <TemplateField
            value={draft.chatTemplate}
            error={errors.chatTemplate}
            onChange={(chatTemplate) => change({ chatTemplate })}
          />
          <Select
            label="Scoring route"
            value={draft.route}
            error={errors.route}
            options={[
              { value: '', label: 'Auto-detect' },
              ...Object.entries(ROUTE_WORDS).map(([route, words]) => ({
                value: route as keyof typeof ROUTE_WORDS,
                label: `${route} (${words})`,
              })),
            ]}
            onChange={(route) => change({ route })}
          />
          <TextField
            label="Label"
            placeholder="The model's last label"
            hint="For models with several labels, the index (from 0) or name of the label to use as the score."
            {...text('label')}
          />
        </>
      )}
      <SettingFields
        draft={draft}
        errors={errors}
        keyHint="Sent to this server as a bearer token. It is not shown again."
        onChange={change}
      />
      <Choices
        legend="If unreachable"
        name="ifUnreachable"
        value={draft.ifUnreachable}
        onChange={(ifUnreachable) => change({ ifUnreachable })}
        options={[
          {
            value: 'refuse',
            label: 'Refuse',
            about: 'Does not save the server, and shows the reason.',
          },
          {
            value: 'keep',
            label: 'Save and keep probing',
            about: 'For a server that is still loading its model.',
          },
        ]}
      />
      <FieldAbout error={errors.form} />
    </SheetForm>
  )
}
