'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { isOverridable } from '../../server/wire/self-test-verdict.ts'
import type { ServerDto } from '../../server/wire/servers.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Choices, FieldAbout, Select, TextField } from '../ui/field.tsx'
import { SheetFoot, SheetForm } from '../ui/sheet-form.tsx'
import { Asking } from './asking.tsx'
import { LimitFields } from './limit-fields.tsx'
import {
  EMPTY_DRAFT,
  type FieldErrors,
  placeFailure,
  prepareRegister,
  type RegisterDraft,
} from './register-form.prepare.ts'
import { SelfTestFacts } from './self-test-facts.tsx'
import { ENGINE_WORDS, ROUTE_WORDS } from './server-words.ts'
import { TemplateField } from './template-field.tsx'

/** Registers a reward-model server: it is asked who it is, and its scores are looked at, before anything is saved. */
export function RegisterSheet({
  open,
  onClose,
  onRegistered,
}: {
  open: boolean
  onClose(): void
  onRegistered(server: ServerDto): void
}) {
  const [distrusted, setDistrusted] = useState<ServerDto | null>(null)
  const finish = (server: ServerDto) => {
    setDistrusted(null)
    onRegistered(server)
  }
  return (
    <Sheet
      open={open}
      onClose={() => (distrusted ? finish(distrusted) : onClose())}
      title="Register a server"
    >
      {distrusted ? (
        <Verdict server={distrusted} onDone={finish} />
      ) : (
        <RegisterForm
          onClose={onClose}
          onRegistered={(server) =>
            server.state === 'distrusted' ? setDistrusted(server) : finish(server)
          }
        />
      )}
    </Sheet>
  )
}

/** It is registered, but its scores are not what they should be: only now may somebody take the blame. */
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
        <p className="text-md font-semibold">{server.name} is registered, and kept out</p>
        <SelfTestFacts test={server.selfTest} />
        <p className="text-ink-2">
          Correct how it is started or registered and probe it again, and it takes calls by itself.
          {consent &&
            ' Using it all the same puts these scores into training; the verdict stays beside its name.'}
        </p>
        {trust.error && <FailureView compact error={trust.error} />}
      </div>
      <SheetFoot>
        {consent && (
          <Button
            busy={trust.isPending}
            onClick={() => trust.mutate({ id: server.id, selfTestOverride: true })}
          >
            Use it all the same
          </Button>
        )}
        <Button variant="primary" onClick={() => onDone(server)}>
          Leave it out
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
      onError: (error) => setErrors(placeFailure(describeFailure(error))),
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
      beside={register.isPending && <Asking address={draft.url.trim()} />}
    >
      <TextField
        label="Address"
        placeholder="http://10.0.0.5:8000"
        mono
        autoFocus
        hint="Its root, without a path. Redirects are never followed."
        {...text('url')}
      />
      <TextField
        label="Name"
        placeholder="rm-1"
        hint="The same name again updates it."
        {...text('name')}
      />
      <div>
        <Select
          label="Engine"
          value={draft.engine}
          onChange={(event) => change({ engine: event.target.value as RegisterDraft['engine'] })}
        >
          <option value="auto">Find out by asking it</option>
          {(Object.keys(ENGINE_WORDS) as ServerDto['engine'][]).map((engine) => (
            <option key={engine} value={engine}>
              {ENGINE_WORDS[engine]}
            </option>
          ))}
        </Select>
        <FieldAbout error={errors.engine} />
      </div>
      <div>
        <Choices
          legend="It gives"
          name="kind"
          value={draft.kind}
          onChange={(kind) => change({ kind })}
          options={[
            {
              value: 'discriminative',
              label: 'Scores',
              about: 'A reward model; its scores are tested for being raw.',
            },
            {
              value: 'generative',
              label: 'Replies',
              about: 'A judge, asked by chat completions.',
            },
          ]}
        />
        <FieldAbout error={errors.kind} />
      </div>
      <TextField
        label="Model"
        placeholder="what the server says it serves"
        hint="Batches name the model; servers of one model form a pool."
        {...text('model')}
      />
      {draft.kind === 'discriminative' && (
        <>
          <TemplateField
            value={draft.chatTemplate}
            error={errors.chatTemplate}
            onChange={(chatTemplate) => change({ chatTemplate })}
          />
          <div>
            <Select
              label="Scoring route"
              value={draft.route}
              onChange={(event) => change({ route: event.target.value as RegisterDraft['route'] })}
            >
              <option value="">Auto-detect</option>
              {Object.entries(ROUTE_WORDS).map(([route, words]) => (
                <option key={route} value={route}>
                  {route}: {words}
                </option>
              ))}
            </Select>
            <FieldAbout error={errors.route} />
          </div>
          <TextField
            label="Label"
            placeholder="the last one"
            hint="Of a model with several labels: which one is the score, by index from 0 or by name."
            {...text('label')}
          />
        </>
      )}
      <LimitFields
        draft={draft}
        errors={errors}
        keyHint="Sent to this server as a bearer token; never shown again."
        onChange={change}
      />
      <Choices
        legend="If it does not answer now"
        name="ifUnreachable"
        value={draft.ifUnreachable}
        onChange={(ifUnreachable) => change({ ifUnreachable })}
        options={[
          {
            value: 'refuse',
            label: 'Do not save it',
            about: 'A mistyped address is noticed at once.',
          },
          {
            value: 'keep',
            label: 'Save it and go on asking',
            about: 'For a server that is still loading its model.',
          },
        ]}
      />
      <FieldAbout error={errors.form} />
    </SheetForm>
  )
}
